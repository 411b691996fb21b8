"""compose.yaml is what the compose specification allows, and starts what it says."""

import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]
COMPOSE = ROOT / "compose.yaml"


def check(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_compose_file_matches_the_compose_schema() -> None:
    checked = check(COMPOSE)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_key_the_schema_does_not_know_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(COMPOSE.read_text().replace("hostname: bookie-1", "hostnam: bookie-1"))
    assert "hostnam" in check(wrong).stdout


def test_one_zookeeper_and_four_bookies_on_loopback_only() -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    bookies = [name for name, service in services.items() if "bookie.server" in service.get("entrypoint", [])]
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert sorted(bookies) == ["bookie-1", "bookie-2", "bookie-3", "bookie-4"]
    assert "zookeeper" in services
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
