"""Puts the figures of a run into docs/reference/reliability.md, each kind of run between marks of its own."""

import os
import platform
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "reference/reliability.md"

Row = tuple[str, str, str]
"""What was measured, the figure, and what must hold of it (empty: a figure for scale)."""


def section(rows: Sequence[Row], command: str) -> str:
    """The table of one run, and where it was taken."""
    lines = ["| | measured | must hold |", "| --- | --- | --- |"]
    lines += [f"| {what} | {measured} | {wanted} |" for what, measured, wanted in rows]
    return "\n".join([*lines, "", f"`{command}`, {_circumstances()}."])


def write(name: str, text: str, page: Path = PAGE) -> None:
    """Replace the text between `<!-- name -->` and `<!-- /name -->` of the page. ValueError without such marks."""
    before = page.read_text()
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    after, count = marked.subn(lambda found: f"{found[1]}{text}\n{found[2]}", before)
    if count != 1:
        raise ValueError(f"{page} has {count} places for the figures of {name}: one is needed")
    page.write_text(after)


def mib(size: float) -> str:
    """Bytes as MiB."""
    return f"{size / (1 << 20):,.1f} MiB"


def _circumstances() -> str:
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    version = described.stdout.strip() or "unknown"
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return f"{day}, version {version}, {os.cpu_count()} cores, Python {platform.python_version()}"
