"""The `mledger` command as its users run it, with its exit code and what it printed."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

from click.testing import CliRunner

from mledger.cli.main import run
from tests.support.aio import HANG_S
from tests.support.forked_python import ForkedPython
from tests.support.ports import environment_of_commands

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class CommandResult:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its output read as one JSON document."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Its output read as one JSON object per line."""
        return [json.loads(line) for line in self.out.splitlines()]


def mledger(*arguments: object, url: str | None = None, stdin: str = "") -> CommandResult:
    """Run `mledger` with `arguments` in this process, as its entry point does; `url` is set as MLEDGER_METADATA."""
    environment = {"MLEDGER_METADATA": url, "MLEDGER_DEBUG": None}
    with CliRunner().isolation(input=stdin, env=environment) as (out, err, _):
        code = run([str(argument) for argument in arguments])
        sys.stdout.flush()
    return CommandResult(code, out.getvalue().decode(errors="replace"), err.getvalue().decode())


def mledger_process(
    *arguments: object, url: str | None = None, stdin: str = "", timeout: float = HANG_S
) -> CommandResult:
    """Run `mledger` with `arguments` as a process of its own; `url` is set as MLEDGER_METADATA."""
    environment = environment_of_commands() | {"PYTHONPATH": str(ROOT)}
    if url is not None:
        environment["MLEDGER_METADATA"] = url
    command = [sys.executable, "-m", "mledger.cli.main", *map(str, arguments)]
    with ForkedPython(command, env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        try:
            out, err = process.communicate(stdin.encode(), timeout)
        finally:
            process.kill()
    return CommandResult(process.returncode, out.decode(errors="replace"), err.decode())


def ok(*arguments: object, url: str | None = None, stdin: str = "") -> CommandResult:
    """Run `mledger`, which must succeed."""
    done = mledger(*arguments, url=url, stdin=stdin)
    assert done.code == 0, f"mledger {' '.join(map(str, arguments))} ended with {done.code}: {done.err}"
    return done


def answer(*arguments: object, url: str | None = None, stdin: str = "") -> Any:
    """The JSON document that a command answers with."""
    return ok(*arguments, "--output", "json", url=url, stdin=stdin).json
