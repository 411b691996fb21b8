"""`python -m tests.clients.go_suite DIRECTORY [--package pulsar|admin] [--only REGEX]`.

Runs the Go client's own tests against our broker. DIRECTORY is a checkout of apache/pulsar-client-go. In a copy, the
fixed ports of a standalone are replaced by those of ours, which has the suite's own configuration and is set up over
the admin REST API as the suite's script sets up Pulsar's. Each test runs in a process of its own, since one that
panics ends its process. Exit code 1 if a test fails that is not listed here, or if one passes that is.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import jwt

from mledger import start_standalone_process
from tests.clients.python_suite import ANYBODY, TOKEN_ONLY, set_up
from tests.support.ports import free_late_port

PACKAGES = {"pulsar": "pulsar", "admin": "pulsaradmin/pkg/admin"}
_CONTAINERS = "it starts Pulsar's own image"
_TIMES = "it expects times to the fraction of a second, and fails on Pulsar's broker, too"
_TRANSACTIONS = "the broker refuses transactions"
FAILING: Mapping[str, str] = {
    "pulsar.TestConsumerKeySharedWithDelayedMessages": _TIMES,
    "pulsar.TestNegativeAckPrecisionBitCnt": _TIMES,
    "pulsar.TestReconnectConsumer": _CONTAINERS,
    "pulsar.TestReconnectedBrokerSendPermits": _CONTAINERS,
    **dict.fromkeys(
        (
            "pulsar.TestTxn_AckAndSend",
            "pulsar.TestTxn_AckChunkMessage",
            "pulsar.TestTxn_ConnReconnect",
            "pulsar.TestTxn_ConsumeAndProduce",
            "pulsar.TestTxn_ImplCommitOrAbort",
            "pulsar.TestTxn_RegisterOpAndEndOp",
            "pulsar.TestTxn_RegisterTopic",
            "pulsar.TestTxn_TCClient",
            "pulsar.TestTxn_TransactionAbort",
        ),
        _TRANSACTIONS,
    ),
    "pulsar.TestConsumerKeepReconnectingAndThenCallClose": _CONTAINERS,
    "pulsar.TestConsumerOnCloseInterceptorOnMaxReconnect": _CONTAINERS,
    "pulsar.TestProducerKeepReconnectingAndThenCallClose": _CONTAINERS,
    "pulsar.TestSendAsyncCouldTimeoutWhileReconnecting": _CONTAINERS,
}
"""Tests that do not pass on our broker, and why."""
CREATED: Mapping[str, object] = {
    "tenants/public": {"adminRoles": ["anonymous"], "allowedClusters": ["standalone"]},
    "namespaces/public/default": ANYBODY,
    "tenants/private": {"adminRoles": [], "allowedClusters": ["standalone"]},
    "namespaces/private/auth": TOKEN_ONLY,
}
"""What the suite's script creates, in this order: the paths below `/admin/v2`, and the bodies."""
_WITHIN_S = 120


def _settings(copy: Path, ports: Mapping[int, int]) -> dict[str, str]:
    """The suite's configuration of a standalone, with the places of its files and the ports of this run."""
    conf, files = copy / "integration-tests" / "conf", copy / "integration-tests"
    lines = (conf / "standalone.conf").read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    placed = {key: value.replace("/pulsar/", f"{files}/") for key, value in settings.items()}
    return placed | {
        "basicAuthConf": f"file://{conf / '.htpasswd'}",
        "bindAddress": "127.0.0.1",
        "brokerServicePortTls": str(ports[6651]),
        "webServicePortTls": str(ports[8443]),
    }


def replace_ports(copy: Path, sources: str, ports: Mapping[int, int]) -> None:
    """Replace ports of this machine in the files that the pattern `sources` names: clients have some as defaults."""
    for file in copy.rglob(sources):
        text = file.read_text()
        changed = re.sub(
            r"(localhost|127\.0\.0\.1):(\d+)",
            lambda found: f"{found[1]}:{ports.get(int(found[2]), int(found[2]))}",
            text,
        )
        file.write_text(changed)


def _tests_of(binary: Path, only: str) -> list[str]:
    listed = subprocess.run([binary, "-test.list", only], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.startswith("Test")]


def run_package(copy: Path, package: str, directory: Path, only: str) -> dict[str, str]:
    """The outcome of each test of a package, as package.test: empty if it passed, else the end of its output."""
    binary, folder = directory / f"{package}.test", copy / PACKAGES[package]
    subprocess.run(["go", "test", "-c", "-o", binary, "."], cwd=folder, check=True)
    outcomes = {}
    for test in _tests_of(binary, only):
        command = [binary, "-test.v", "-test.run", f"^{test}$", f"-test.timeout={_WITHIN_S}s"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        (directory / f"{package}.{test}.log").write_text(done.stdout + done.stderr)
        outcomes[f"{package}.{test}"] = "" if done.returncode == 0 else (done.stdout + done.stderr)[-1500:]
    return outcomes


def main() -> int:
    """Run and compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients.go_suite", description=__doc__.splitlines()[2])
    parser.add_argument("checkout", type=Path, metavar="DIRECTORY")
    parser.add_argument("--package", choices=PACKAGES, action="append")
    parser.add_argument("--only", default=".*", metavar="REGEX", help="tests that go test's -run selects")
    parser.add_argument("--dir", type=Path, help="where logs are kept")
    args = parser.parse_args()
    directory = args.dir or Path(tempfile.mkdtemp(prefix="go-suite-"))
    directory.mkdir(parents=True, exist_ok=True)
    copy = directory / "client"
    shutil.copytree(args.checkout, copy)
    ports = {port: free_late_port() for port in (6650, 8080, 6651, 8443)}
    replace_ports(copy, "*.go", ports)
    outcomes: dict[str, str] = {}
    settings = _settings(copy, ports)
    with start_standalone_process(port=ports[6650], http_port=ports[8080], settings=settings) as standalone:
        key = (copy / "integration-tests" / "tokens" / "secret.key").read_bytes()
        set_up(standalone.admin_url, jwt.encode({"sub": "superUser"}, key, "HS256"), CREATED)
        for package in args.package or PACKAGES:
            outcomes |= run_package(copy, package, directory, args.only)
    failed = {test: what for test, what in outcomes.items() if what}
    for test, what in failed.items():
        print(f"{test}: {FAILING.get(test) or what}\n")
    print(f"{len(outcomes) - len(failed)} of {len(outcomes)} pass; logs: {directory}")
    return int(bool(failed.keys() ^ (FAILING.keys() & outcomes.keys())))


if __name__ == "__main__":
    sys.exit(main())
