"""`python -m tests.clients.python_suite DIRECTORY [--broker ours|original] [--only TEXT]`.

Runs the Python client's own tests against a broker. DIRECTORY is `tests` of apache/pulsar-client-python at the version
of the installed client. In a copy, the fixed ports of a standalone are replaced by the broker's; each file runs in a
process of its own, as there. Exit code 1 if a test fails that is not listed here, or if one passes that is.
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.clients.judged_broker import OurBroker, original_broker_cluster, our_cluster
from tests.clients.suite_admin import SuiteAdmin

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
_TLS = "the broker does not speak TLS"
_ANYONE = "the broker authenticates nobody"
FAILING: Mapping[str, str] = {
    "pulsar_test.test_tls_auth": _TLS,
    "pulsar_test.test_tls_auth2": _TLS,
    "pulsar_test.test_tls_auth3": _TLS,
    "pulsar_test.test_tls_encryption_with_other_auth": _TLS,
    "pulsar_test.test_basic_auth_method": _ANYONE,
    "pulsar_test.test_invalid_basic_auth": _ANYONE,
    "asyncio_test.test_create_producer_failure": "namespaces need not be created",
    "pulsar_test.test_connect_timeout": "it needs a network in which packets to 192.0.2.1 get lost",
}
"""Tests that do not pass on our broker, and why."""
SETTINGS = {"maxMessageSize": 5 << 20}
_WITHIN_S = 120


class SuiteCrashed(Exception):
    """The process of a file of tests ended in the middle of it."""


@contextlib.contextmanager
def _ports(broker: str, directory: Path) -> Iterator[dict[int, int]]:
    """The ports of a running broker by those of a standalone."""
    if broker == "original":
        with original_broker_cluster(directory, SETTINGS) as cluster:
            yield {6650: cluster.broker.port, 8080: cluster.broker.web_port}
        return
    with our_cluster(directory, [f"{name}={value}" for name, value in SETTINGS.items()], http=True) as cluster:
        assert isinstance(cluster.broker, OurBroker)
        assert cluster.broker.http_port is not None
        where = cluster.broker.port, cluster.broker.http_port
        with SuiteAdmin(cluster.url, *where, directory / "compactions") as admin:
            yield {6650: cluster.broker.port, 8080: admin.port}


def run_suite(tests: Path, ports: Mapping[int, int], directory: Path, only: str = "") -> dict[str, str]:
    """The outcome of each test, as file.test: empty if it passed, else the end of what it said."""
    copy = directory / "tests"
    shutil.copytree(tests, copy)
    (copy / ".test-token.txt").write_text("any token\n")
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
    with _ports(args.broker, directory / "cluster") as ports:
        outcomes = run_suite(args.tests, ports, directory, args.only)
    failed = {test: what for test, what in outcomes.items() if what}
    expected = FAILING if args.broker == "ours" else {}
    for test, what in failed.items():
        print(f"{test}: {expected.get(test) or what}\n")
    passed = len(outcomes) - len(failed)
    print(f"{passed} of {len(outcomes)} pass; logs: {directory}")
    return int(bool(failed.keys() ^ (expected.keys() & outcomes.keys())))


if __name__ == "__main__":
    sys.exit(main())
