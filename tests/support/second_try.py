"""Runs pytest, and what failed once more, alone: CI's way to tell an unsteady test from a broken one.

    python -m tests.support.second_try [pytest's arguments]

The second run decides. What passes then is listed as unsteady at its end, with both outputs. There is no second run
where the first was cut off or could not collect the tests, or where so many failed that it is not by chance. As a
plugin of pytest it writes down what failed.
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
"""Pytest's exit code."""


class FailedTests:
    """Writes down, in the file that FAILED_TO names, the tests that failed and how."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failed: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a failure of any phase."""
        if report.failed:
            self._failed.setdefault(report.nodeid, []).append(_told(report))

    def pytest_sessionfinish(self) -> None:
        """Write."""
        self._path.write_text(json.dumps(self._failed))


class UnsteadyTests:
    """Lists what passes now and failed before, by the file that FAILED_FROM names."""

    def __init__(self, path: Path) -> None:
        self._before: dict[str, list[str]] = json.loads(path.read_text())
        self._now: dict[str, list[pytest.TestReport]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep every phase."""
        self._now.setdefault(report.nodeid, []).append(report)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The list, above pytest's closing line."""
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
    """Of the run itself, not of its workers."""
    if hasattr(config, "workerinput"):
        return
    if path := os.environ.get(FAILED_TO):
        config.pluginmanager.register(FailedTests(Path(path)), "failed tests")
    if path := os.environ.get(FAILED_FROM):
        config.pluginmanager.register(UnsteadyTests(Path(path)), "unsteady tests")


def main(arguments: list[str]) -> int:
    """Run once or twice; pytest's exit code of the last run."""
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
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.second_try", *arguments]
    return subprocess.run(command, env=os.environ | environment, check=False).returncode


def _told(report: pytest.TestReport) -> str:
    parts = [report.longreprtext, *(f"{title}:\n{text}" for title, text in report.sections)]
    return "\n".join(filter(None, parts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
