"""What README.md shows works as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.aio import HANG_S
from tests.support.documents import blocks_of

ROOT = Path(__file__).parents[4]
COMMAND = f'mledger() {{ "{sys.executable}" -m mledger.cli.main "$@"; }}\n'


def block(language: str) -> str:
    """The one block of a language."""
    (found,) = blocks_of("README.md", language)
    return found.text


def test_the_transcript_prints_what_it_says(tmp_path) -> None:
    transcript = block("console")
    commands = [line.removeprefix("$ ") for line in transcript.splitlines() if line.startswith("$ ")]
    script = "set -e\n" + COMMAND + "\n".join(commands)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=HANG_S
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    for line in transcript.splitlines():
        assert line.startswith("$ ") or line in printed, line


def test_the_python_example_runs(url) -> None:
    example = block("python")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MLEDGER_METADATA": url}
    done = subprocess.run(
        [sys.executable, "-c", example], env=environment, capture_output=True, text=True, timeout=HANG_S, check=True
    )
    assert re.fullmatch(r"\d+:0 b'first'\n\d+:1 b'second'\nleft: 1\n", done.stdout)
