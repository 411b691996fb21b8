"""`python -m tests.clients.python_suite DIRECTORY [--broker ours|original] [--only TEXT]`.

Runs the Python client's own tests against a broker. DIRECTORY is `tests` of apache/pulsar-client-python at the version
of the installed client. In a copy, the fixed ports of a standalone are replaced by the broker's; each file runs in a
process of its own, as there. Ours is a standalone with the suite's own configuration, set up over the admin REST API
as the suite's scripts set up Pulsar's. Exit code 1 if a test fails that is not listed here, or if one passes that is.
"""

import argparse
import contextlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from pathlib import Path

import jwt

from mledger import start_standalone_process
from tests.clients.judged_broker import original_broker_cluster
from tests.support.ports import free_late_port

FILES = (
    "custom_logger_test",
    "debug_logger_test",
    "interrupted_test",
    "pulsar_test",
    "schema_test",
    "table_view_test",
    "reader_test",
    "asyncio_test",
)
"""Without those of OAuth, which need an account, and of two clusters, which need containers of Pulsar's."""
FAILING: Mapping[str, str] = {
    "pulsar_test.test_connect_timeout": "it needs a network in which packets to 192.0.2.1 get lost",
}
"""Tests that do not pass on our broker, and why."""
SETTINGS = {"maxMessageSize": 5 << 20}
ANYBODY = {"auth_policies": {"namespace_auth": {"anonymous": ["produce", "consume"]}}}
TOKEN_ONLY = {"auth_policies": {"namespace_auth": {"token-principal": ["produce", "consume"]}}}
CREATED: Mapping[str, object] = {
    "tenants/public": {"adminRoles": ["anonymous"], "allowedClusters": ["standalone"]},
    "namespaces/public/default": ANYBODY,
    "namespaces/public/default-2": ANYBODY,
    "tenants/private": {"adminRoles": [], "allowedClusters": ["standalone"]},
    "namespaces/private/auth": TOKEN_ONLY,
}
"""What the suite's scripts create, in this order: the paths below `/admin/v2`, and the bodies."""
_WITHIN_S = 120


class SuiteCrashed(Exception):
    """The process of a file of tests ended in the middle of it."""


@contextlib.contextmanager
def _ports(broker: str, tests: Path, directory: Path) -> Iterator[dict[int, int]]:
    """The ports of a running broker by those of a standalone; the token that the tests read is written."""
    key = secrets.token_bytes(32)
    (tests / ".test-token.txt").write_text(jwt.encode({"sub": "token-principal"}, key, "HS256"))
    if broker == "original":
        with original_broker_cluster(directory, SETTINGS) as cluster:
            yield {6650: cluster.broker.port, 8080: cluster.broker.web_port}
        return
    (directory / "secret.key").write_bytes(key)
    ports = {port: free_late_port() for port in (6650, 8080, 6651, 8443)}
    settings = _settings(tests / "test-conf", directory, ports)
    with start_standalone_process(port=ports[6650], http_port=ports[8080], settings=settings) as standalone:
        set_up(standalone.admin_url, jwt.encode({"sub": "superUser"}, key, "HS256"), CREATED)
        yield ports


def _settings(files: Path, directory: Path, ports: Mapping[int, int]) -> dict[str, str]:
    """The suite's configuration of a standalone, with the places of its files and the ports of this run."""
    lines = (files / "standalone-ssl.conf").read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    for key in ("tlsCertificateFilePath", "tlsKeyFilePath", "tlsTrustCertsFilePath"):
        settings[key] = str(files / Path(settings[key]).name)
    return settings | {
        "basicAuthConf": f"file://{files / '.htpasswd'}",
        "bindAddress": "127.0.0.1",
        "brokerServicePortTls": str(ports[6651]),
        "tokenSecretKey": f"file://{directory / 'secret.key'}",
        "webServicePortTls": str(ports[8443]),
    }


def set_up(admin_url: str, token: str, created: Mapping[str, object]) -> None:
    """Create these by the admin REST API, in their order: the paths below `/admin/v2`, and the bodies."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    for path, body in created.items():
        url = f"{admin_url}/admin/v2/{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="PUT")
        with urllib.request.urlopen(request, timeout=_WITHIN_S):
            pass


def run_suite(copy: Path, ports: Mapping[int, int], directory: Path, only: str = "") -> dict[str, str]:
    """The outcome of each test of a copy of the suite, as file.test: empty if it passed, else the end of its output."""
    outcomes: dict[str, str] = {}
    for name in FILES:
        file = copy / f"{name}.py"
        file.write_text(re.sub(r"localhost:(\d+)", lambda found: _address(ports, int(found[1])), file.read_text()))
        report = directory / f"{name}.xml"
        command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(copy), "-q", "-p", "no:mledger"]
        command += ["-p", "no:cacheprovider", f"--timeout={_WITHIN_S}", f"--junitxml={report}"]
        command += ["-k", only] if only else []
        said = directory / f"{name}.log"
        with open(said, "wb") as log:
            subprocess.run([*command, file], cwd=copy, stdout=log, stderr=subprocess.STDOUT, check=False)
        if not report.exists():
            raise SuiteCrashed(f"{name} ended before its tests did: {said}\n{said.read_text(errors='replace')[-4000:]}")
        outcomes |= {f"{name}.{test}": what for test, what in _outcomes(report).items()}
    return outcomes


def _address(ports: Mapping[int, int], port: int) -> str:
    return f"127.0.0.1:{ports.get(port, port)}"


def _outcomes(report: Path) -> dict[str, str]:
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        bad = [each for each in case if each.tag in ("failure", "error", "skipped")]
        found[str(case.get("name"))] = (bad[0].text or bad[0].get("message") or "?")[-1500:] if bad else ""
    return found


def main() -> int:
    """Run and compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients.python_suite", description=__doc__.splitlines()[2])
    parser.add_argument("tests", type=Path, metavar="DIRECTORY")
    parser.add_argument("--broker", choices=("ours", "original"), default="ours")
    parser.add_argument("--only", default="", metavar="TEXT", help="tests that this text selects, as pytest's -k")
    parser.add_argument("--dir", type=Path, help="where logs and reports are kept")
    args = parser.parse_args()
    directory = args.dir or Path(tempfile.mkdtemp(prefix="python-suite-"))
    copy = directory / "tests"
    shutil.copytree(args.tests, copy)
    with _ports(args.broker, copy, directory) as ports:
        outcomes = run_suite(copy, ports, directory, args.only)
    failed = {test: what for test, what in outcomes.items() if what}
    expected = FAILING if args.broker == "ours" else {}
    for test, what in failed.items():
        print(f"{test}: {expected.get(test) or what}\n")
    passed = len(outcomes) - len(failed)
    print(f"{passed} of {len(outcomes)} pass; logs: {directory}")
    return int(bool(failed.keys() ^ (expected.keys() & outcomes.keys())))


if __name__ == "__main__":
    sys.exit(main())
