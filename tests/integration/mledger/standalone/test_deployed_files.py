"""The files of `deploy/standalone/`: systemd and compose accept them, and their settings serve a team."""

import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pulsar
import pytest
import yaml

from mledger.standalone.image.tokens_program import main as tokens
from mledger.standalone.options import parse_standalone_options
from tests.support.aio import HANG_S
from tests.support.certificates import certify

ROOT = Path(__file__).parents[4]
DEPLOYED = ROOT / "deploy/standalone"
COMPOSE = DEPLOYED / "compose.yaml"
UNITS = ("mledger.service", "mledger-backup.service", "mledger-backup.timer")
QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


def exec_start(unit: str) -> list[str]:
    lines = (DEPLOYED / unit).read_text().splitlines()
    return [line.removeprefix("ExecStart=") for line in lines if line.startswith("ExecStart=")]


def test_systemd_accepts_the_units(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("not on PATH: systemd-analyze")
    for unit in UNITS:
        text = (DEPLOYED / unit).read_text().replace("/opt/mledger/bin/mledger", sys.executable)
        (tmp_path / unit).write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / unit) for unit in UNITS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    assert "mledger" not in done.stderr, "systemd warns of a line"


def test_the_command_of_the_service_is_one_of_mledgers():
    (command,) = exec_start("mledger.service")
    program, name, *options = command.replace("/etc/mledger", str(DEPLOYED)).split()
    assert (program, name) == ("/opt/mledger/bin/mledger", "standalone")
    assert parse_standalone_options(options).data_dir == "/var/lib/mledger/data"


def test_the_compose_file_matches_the_schema_and_publishes_the_ports_of_tls():
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert checked.returncode == 0, checked.stdout
    ports = [port.partition(":")[2] for port in yaml.safe_load(COMPOSE.read_text())["services"]["pulsar"]["ports"]]
    settings = (DEPLOYED / "standalone.conf").read_text().splitlines()
    assert [f"brokerServicePortTls={ports[0]}" in settings, f"webServicePortTls={ports[1]}" in settings] == [True, True]


def test_compose_accepts_the_file():
    program = shutil.which("docker-compose")
    if program is None:
        pytest.skip("not on PATH: docker-compose")
    command = [program, "-f", str(COMPOSE), "config"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)["services"].keys() == {"pulsar"}


@pytest.fixture
def settings(tmp_path, capsys):
    """The deployed settings with this test's directory and free ports, and a token of the super user."""
    certified = certify(tmp_path / "certificates")
    assert tokens(["create-secret-key", "--output", str(tmp_path / "token.key")]) == 0
    assert tokens(["create", "--secret-key", str(tmp_path / "token.key"), "--subject", "admin"]) == 0
    token = capsys.readouterr().out.strip()
    text = (DEPLOYED / "standalone.conf").read_text().replace("/etc/mledger", str(tmp_path))
    places = {
        "bindAddress": "127.0.0.1",
        "advertisedAddress": "127.0.0.1",
        "brokerServicePortTls": 0,
        "webServicePort": 0,
        "webServicePortTls": 0,
        "tlsCertificateFilePath": certified.certificate,
        "tlsKeyFilePath": certified.key,
    }
    lines = [line for line in text.splitlines() if line.partition("=")[0] not in places]
    path = tmp_path / "standalone.conf"
    path.write_text("\n".join([*lines, *(f"{key}={value}" for key, value in places.items()), ""]))
    return path, token, str(certified.authority)


def connect(url, token, authority):
    shown = pulsar.AuthenticationToken(token) if token else None
    return pulsar.Client(url, authentication=shown, tls_trust_certs_file_path=authority, logger=QUIET)


@contextlib.contextmanager
def serving(data, conf):
    """The service's command on another directory; the URL that it says."""
    command = [
        sys.executable,
        "-m",
        "mledger.standalone",
        "--data-dir",
        data,
        "--broker-conf",
        conf,
        "--output",
        "json",
    ]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as process:
        try:
            yield json.loads(process.stdout.readline())["service_url"]
        finally:
            process.terminate()


def test_the_settings_serve_by_tls_who_has_a_token_and_a_backup_holds_everything(settings, tmp_path):
    conf, token, authority = settings
    with serving(tmp_path / "data", conf) as url:
        assert url.startswith("pulsar+ssl://")
        client = connect(url, token, authority)
        client.subscribe("orders", "billing").close()
        client.create_producer("orders").send(b"order")
        client.close()
        nobody = connect(url, "", authority)
        with pytest.raises(pulsar.PulsarException):
            nobody.create_producer("orders")
        nobody.close()
    archive = tmp_path / "backup.tar.gz"
    subprocess.run(["tar", "-czSf", str(archive), "-C", str(tmp_path), "data"], check=True)
    shutil.rmtree(tmp_path / "data")
    subprocess.run(["tar", "-xzSf", str(archive), "-C", str(tmp_path)], check=True)
    with serving(tmp_path / "data", conf) as url:
        client = connect(url, token, authority)
        assert client.subscribe("orders", "billing").receive(60_000).data() == b"order"
        client.close()
