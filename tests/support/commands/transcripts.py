"""Console transcripts of a document as tests: the `$ ` lines of each `console` block must print what follows them.

In the expected output `…` matches any text within a line, and a line of only `…` matches any lines. The number of
spaces does not matter. A command without output below it may print anything. One that fails is followed by
`$ echo $?`. What readers need not see, such as how a chapter's state is set up, is in a comment: `<!-- run`.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.aio import HANG_S
from tests.support.commands.forked_commands import forked_commands
from tests.support.ports import environment_of_commands

ROOT = Path(__file__).resolve().parents[3]
PROMPT = "$ "
MORE = "> "
ANY = "…"
BLOCK = re.compile(r"^(?:```console|<!-- run)\n(.*?)^(?:```|-->)$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class ShownCommand:
    """One command of a document: its line number, its text, and the output below it."""

    line: int
    text: str
    shown: tuple[str, ...]
    may_fail: bool

    @property
    def name(self) -> str:
        """The name of its test."""
        return f"{self.line}: {self.text.splitlines()[0][:60]}"


def commands_of(document: str) -> list[ShownCommand]:
    """The commands of the document's transcripts, in order."""
    found: list[ShownCommand] = []
    for block in BLOCK.finditer(document):
        line = document.count("\n", 0, block.start(1)) + 1
        texts: list[tuple[int, list[str], list[str]]] = []
        for number, text in enumerate(block[1].splitlines(), line):
            if text.startswith(PROMPT):
                texts.append((number, [text.removeprefix(PROMPT)], []))
            elif text.startswith(MORE) and not texts[-1][2]:
                texts[-1][1].append(text.removeprefix(MORE))
            else:
                texts[-1][2].append(text)
        asked = [lines[0] == "echo $?" for _, lines, _ in texts] + [False]
        found += [
            ShownCommand(number, "\n".join(lines), tuple(shown), asked[index + 1])
            for index, (number, lines, shown) in enumerate(texts)
        ]
    return found


def script_of(commands: list[ShownCommand], directory: Path) -> str:
    """A bash script that runs them all in one shell. The output and exit code of each go to files in `directory`."""
    lines = ["code=0"]
    for index, command in enumerate(commands):
        out = directory / str(index)
        lines += [
            "(exit $code)",
            f"{{ {command.text}",
            f"}} >{out}.out 2>&1 </dev/null",
            f"code=$?; echo $code >{out}.code",
        ]
    return "\n".join(lines) + "\n"


def agrees(shown: tuple[str, ...], printed: str) -> bool:
    """Whether the output matches the document."""
    pattern = ""
    for line in shown:
        words = " ".join(line.split())
        if words == ANY:
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(map(re.escape, words.split(ANY))) + r"\n"
    text = "".join(" ".join(line.split()) + "\n" for line in printed.splitlines())
    return re.fullmatch(pattern, text) is not None


def check(command: ShownCommand, index: int, printed: Path) -> None:
    """Assert that the command with that index ended and printed as its document says."""
    shown = (printed / f"{index}.out").read_text()
    code = int((printed / f"{index}.code").read_text())
    assert code == 0 or command.may_fail, f"{command.name} ended with {code}: {shown}"
    assert not command.shown or agrees(command.shown, shown), f"{command.name} printed: {shown}"


def run_transcript(commands: list[ShownCommand], place: Path) -> Path:
    """The files with the output of the commands, run in order in one shell below `place`. What they started is stopped.

    `python` is this interpreter.
    """
    programs = place / "programs"
    programs.mkdir()
    with forked_commands(programs):
        try:
            return run_in_shell(commands, place, (programs, Path(sys.executable).parent))
        finally:
            path = f"{programs}:{os.environ['PATH']}"
            subprocess.run(
                ["mledger", "down"],
                cwd=place / "work",
                env=environment_of_commands() | {"PATH": path},
                capture_output=True,
                timeout=HANG_S,
                check=False,
            )


def run_in_shell(
    commands: list[ShownCommand],
    place: Path,
    programs: tuple[Path, ...],
    environment: Mapping[str, str] | None = None,
    timeout: float = HANG_S,
) -> Path:
    """The files with the output of the commands, run in order in `place/work`; `programs` come first in PATH."""
    printed, work = place / "printed", place / "work"
    printed.mkdir()
    work.mkdir()
    path = ":".join(map(str, (*programs, os.environ["PATH"])))
    shell = subprocess.Popen(
        ["bash", "-c", script_of(commands, printed)],
        cwd=work,
        env=environment_of_commands() | {"PATH": path, "PYTHONPATH": str(ROOT)} | dict(environment or {}),
        start_new_session=True,
    )
    try:
        shell.wait(timeout)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait(HANG_S)
    return printed
