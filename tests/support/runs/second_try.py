"""Runs pytest, and then whatever failed once more, alone: how CI tells an unsteady test from a broken one.

    python -m tests.support.runs.second_try [pytest's arguments]

The second run decides. It ends with a list of the tests that now pass, called unsteady, with both outputs. There is no
second run if the first was cut off, could not collect the tests, or had too many failures to be chance. This module is
also the plugin of pytest that records the failures.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

FAILED_TO = "MLEDGER_TESTS_FAILED_TO"
FAILED_FROM = "MLEDGER_TESTS_FAILED_FROM"
MOST = 40
TESTS_FAILED = 1
"""The exit code of pytest."""


class FailedTests:
    """Records, in the file that FAILED_TO names, which tests failed and how."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a failure in any phase."""
        if report.failed:
            self._failed.setdefault(report.nodeid, []).append(_told(report))

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        self._path.write_text(json.dumps(self._failed))


class UnsteadyTests:
    """Lists the tests that pass now and failed before, according to the file that FAILED_FROM names."""

    def __init__(self, path: Path) -> None:
        self._before: dict[str, list[str]] = json.loads(path.read_text())
        self._now: dict[str, list[pytest.TestReport]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the report of every phase."""
        self._now.setdefault(report.nodeid, []).append(report)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the list above pytest's closing line."""
        unsteady = {name: reports for name, reports in self._now.items() if not any(each.failed for each in reports)}
        if not unsteady:
            return
        terminalreporter.section("unsteady tests: failed at first, passed alone")
        for name, reports in unsteady.items():
            terminalreporter.line(f"UNSTEADY {name}")
            for told in self._before.get(name, ()):
                terminalreporter.line(f"---- at first\n{told}")
            terminalreporter.line("---- alone\n" + "\n".join(filter(None, map(_told, reports))))


def pytest_configure(config: pytest.Config) -> None:
    """Whether this is the run itself, not one of its workers."""
    if hasattr(config, "workerinput"):
        return
    if path := os.environ.get(FAILED_TO):
        config.pluginmanager.register(FailedTests(Path(path)), "failed tests")
    if path := os.environ.get(FAILED_FROM):
        config.pluginmanager.register(UnsteadyTests(Path(path)), "unsteady tests")


def main(arguments: list[str]) -> int:
    """Run once or twice, and return pytest's exit code of the last run."""
    with tempfile.TemporaryDirectory() as directory:
        failed = Path(directory) / "failed.json"
        code = _pytest(arguments, {FAILED_TO: str(failed)})
        names = list(json.loads(failed.read_text())) if failed.exists() else []
        if code != TESTS_FAILED or not 0 < len(names) <= MOST:
            return code
        again = Path(directory) / "again"
        again.write_text("".join(f"{name}\n" for name in names))
        print(f"\n{len(names)} tests failed: they run once more, alone\n", flush=True)
        return _pytest([f"@{again}"], {FAILED_FROM: str(failed)})


def _pytest(arguments: list[str], environment: dict[str, str]) -> int:
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.runs.second_try", *arguments]
    return subprocess.run(command, env=os.environ | environment, check=False).returncode


def _told(report: pytest.TestReport) -> str:
    parts = [report.longreprtext, *(f"{title}:\n{text}" for title, text in report.sections)]
    return "\n".join(filter(None, parts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
