"""Runs pytest as a user of the plugin does: on a directory of tests, with the distribution's entry point."""

import os
import re
import signal
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.aio import HANG_S

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class PytestResult:
    """A run of pytest that has ended."""

    code: int
    out: str

    @property
    def outcomes(self) -> dict[str, int]:
        """How many tests passed, failed and so on."""
        return {what: int(number) for number, what in re.findall(r"(\d+) (passed|failed|error)", self.out)}


class UserProject:
    """A directory with tests, in which the entry points of pyproject.toml are installed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.base = directory / "base"
        metadata = directory / "site" / "installed_for_test-1.dist-info"
        metadata.mkdir(parents=True)
        points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
        lines = [f"{name} = {module}\n" for name, module in points.items()]
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-for-test\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text("".join(["[pytest11]\n", *lines]))

    def command(self, source: str, *arguments: str, settings: str = "") -> list[str]:
        """The command that runs pytest on `source` with the configuration `settings`."""
        (self.directory / "test_user.py").write_text(source)
        (self.directory / "pytest.ini").write_text(f"[pytest]\n{settings}\n")
        base = ["-p", "no:cacheprovider", f"--basetemp={self.base}"]
        return [sys.executable, "-m", "pytest", *base, *arguments, "test_user.py"]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a run."""
        paths = os.pathsep.join([str(self.directory / "site"), str(ROOT)])
        return {**{k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}, "PYTHONPATH": paths}

    def run(self, source: str, *arguments: str, settings: str = "") -> PytestResult:
        """Run pytest on `source` to its end."""
        command = self.command(source, *arguments, settings=settings)
        done = subprocess.run(
            command, cwd=self.directory, env=self.environment, capture_output=True, text=True, timeout=HANG_S
        )
        return PytestResult(done.returncode, done.stdout + done.stderr)

    def start(self, source: str, *arguments: str) -> "subprocess.Popen[str]":
        """Start pytest on `source`. The output of the tests is on its stdout."""
        return subprocess.Popen(
            self.command(source, "-s", *arguments),
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=_hear_interrupts,
        )


def _hear_interrupts() -> None:
    """A process started in the background ignores these signals, and so do its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def processes_in(directory: Path) -> list[psutil.Process]:
    """The processes that run in a directory or below it."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(directory) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):  # it has ended meanwhile, or is not ours
            continue
    return found


def end_by_themselves(processes: list[psutil.Process]) -> bool:
    """Wait for their end; whether all of them ended."""
    return not psutil.wait_procs(processes, timeout=HANG_S)[1]
