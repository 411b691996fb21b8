"""The compose files are valid by the compose specification, and start what they name."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.aio import HANG_S

ROOT = Path(__file__).parents[3]
COMPOSE = ROOT / "compose.yaml"
LOOPBACK = ROOT / "compose.loopback.yaml"
ZOOKEEPERS = ["zookeeper-1", "zookeeper-2", "zookeeper-3"]
BOOKIES = ["bookie-1", "bookie-2", "bookie-3", "bookie-4"]


def services(path: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = yaml.safe_load(path.read_text())["services"]
    return found


def check(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)


@pytest.mark.parametrize("path", [COMPOSE, LOOPBACK], ids=lambda path: path.name)
def test_compose_file_matches_the_compose_schema(path: Path) -> None:
    checked = check(path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_key_the_schema_does_not_know_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(COMPOSE.read_text().replace("restart: unless-stopped", "restrat: unless-stopped"))
    assert "restrat" in check(wrong).stdout


def test_each_of_three_zookeeper_nodes_and_four_bookies_has_volumes_of_its_own() -> None:
    found = services(COMPOSE)
    volumes = [str(volume) for name in ZOOKEEPERS + BOOKIES for volume in found[name]["volumes"]]  # type: ignore[attr-defined]
    assert len(volumes) == len(set(volumes)) == 2 * len(ZOOKEEPERS) + len(BOOKIES)


def test_the_compose_file_checks_zookeeper_and_the_image_checks_bookies() -> None:
    checks = {name: each["healthcheck"] for name, each in services(COMPOSE).items() if "healthcheck" in each}
    assert sorted(name for name, check in checks.items() if check != {"disable": True}) == sorted(ZOOKEEPERS)
    assert "HEALTHCHECK" in (ROOT / "Dockerfile").read_text()
    assert not set(BOOKIES) & set(checks)


def test_images_are_named_by_exact_versions() -> None:
    images = {str(each["image"]) for each in services(COMPOSE).values()} - {"mledger"}
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    bases = {base for base, _ in stages} - {name for _, name in stages}
    assert images
    assert bases
    assert all(re.search(r":\d+\.\d+", image) for image in images | bases)


def test_the_loopback_file_puts_every_service_on_the_host_network_at_127_0_0_1() -> None:
    override = services(LOOPBACK)
    assert sorted(override) == sorted(services(COMPOSE))
    assert all(each["network_mode"] == "host" for each in override.values())
    addresses = re.findall(r"\b(\S+?):\$\{", LOOPBACK.read_text())
    assert addresses
    assert {address.rpartition("/")[2].rpartition("=")[2] for address in addresses if "}" not in address} == {
        "127.0.0.1"
    }
