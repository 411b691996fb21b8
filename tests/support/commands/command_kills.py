"""Runs `mledger` commands that kill themselves with SIGKILL at the n-th step of a change, or at a step of a name.

`python -m tests.support.commands.command_kills` imports everything once and forks a process for each JSON line on
stdin: `{"at": n, "arguments": […]}`. It answers with one line: how that process ended, and the name of the step it
reached.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.aio import HANG_S

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Ended:
    """The end of a command that was told to kill itself: the step at which it did, or its exit code."""

    killed_at: str
    code: int


class KilledCommands:
    """The process that forks the commands."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, at: int | str, *arguments: object) -> Ended:
        """Run a command that kills itself when it reaches step number `at`, counted from 1, or a step of this name."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"at": at, "arguments": [str(each) for each in arguments]}) + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))


@contextlib.contextmanager
def killed_commands() -> Iterator[KilledCommands]:
    """A process that runs such commands. It ends with the context."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.commands.command_kills"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield KilledCommands(process)
    finally:
        process.communicate(timeout=HANG_S)


def _serve() -> None:
    from tests.support.commands.forked_commands import _import_everything

    _import_everything()
    for line in sys.stdin:
        asked = json.loads(line)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _die_running(asked["at"], asked["arguments"], writing)
        os.close(writing)
        with os.fdopen(reading) as told:
            step = told.read()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(json.dumps({"killed_at": step if code == -signal.SIGKILL else "", "code": code}), flush=True)


def _die_running(at: int | str, arguments: list[str], tell: int) -> None:
    """Become the command. Never returns."""
    from mledger.cli.main import run
    from mledger.cli.shared.changes import change_command

    reached = 0

    def on_step(step: str) -> None:
        nonlocal reached
        reached += 1
        if at in (reached, step):
            os.write(tell, step.encode())
            os.kill(os.getpid(), signal.SIGKILL)

    change_command.on_step = on_step
    code = 70
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = run(arguments)
    finally:
        os._exit(code)


if __name__ == "__main__":
    _serve()
