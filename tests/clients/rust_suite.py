"""`python -m tests.clients.rust_suite DIRECTORY [--only TEXT]`.

Runs the own tests of Rust's client, streamnative/pulsar-rs, against our broker. DIRECTORY is a checkout of it. In a
copy, the fixed ports of a standalone are replaced by those of ours. Cargo fetches and compiles the client; its tests
run one after the other, as in the client's own CI. Exit code 1 if one fails or if none ran.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mledger import start_standalone_process
from tests.clients.go_suite import replace_ports
from tests.support.ports import free_late_port

SETTINGS = {"topicLevelPoliciesEnabled": "true"}
"""What the suite's CI sets."""
_COMMAND = ("cargo", "test", "--lib", "--features", "admin-api")
_TESTED = re.compile(r"^test (\S+) \.\.\. (ok|FAILED)$", re.MULTILINE)


def _protoc(directory: Path) -> Path:
    """A program with the options of protoc: ours, since Cargo's build of one takes long."""
    program = directory / "protoc"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m grpc_tools.protoc "$@"\n')
    program.chmod(0o755)
    return program


def run_tests(copy: Path, directory: Path, only: str) -> dict[str, bool]:
    """Which tests passed, by name."""
    environment = os.environ | {"RUST_TEST_THREADS": "1", "PROTOC": str(_protoc(directory))}
    done = subprocess.run(
        [*_COMMAND, *([only] if only else [])], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    (directory / "tests.log").write_text(done.stdout + done.stderr)
    return {name: outcome == "ok" for name, outcome in _TESTED.findall(done.stdout)}


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients.rust_suite", description=__doc__.splitlines()[2])
    parser.add_argument("checkout", type=Path, metavar="DIRECTORY")
    parser.add_argument("--only", default="", metavar="TEXT", help="tests with this in their names")
    parser.add_argument("--dir", type=Path, help="where the log is kept, and what Cargo compiles")
    args = parser.parse_args()
    directory = args.dir or Path(tempfile.mkdtemp(prefix="rust-suite-"))
    directory.mkdir(parents=True, exist_ok=True)
    copy = directory / "client"
    shutil.copytree(args.checkout, copy, ignore=shutil.ignore_patterns("target"))
    ports = {port: free_late_port() for port in (6650, 8080)}
    replace_ports(copy, "*.rs", ports)
    with start_standalone_process(port=ports[6650], http_port=ports[8080], settings=SETTINGS):
        passed = run_tests(copy, directory, args.only)
    print("".join(f"{name} fails\n" for name, ok in passed.items() if not ok), end="")
    print(f"{sum(passed.values())} of {len(passed)} pass; log: {directory / 'tests.log'}")
    return int(not passed or not all(passed.values()))


if __name__ == "__main__":
    sys.exit(main())
