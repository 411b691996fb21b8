"""The fenced blocks of the documents."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block: its document, its first line, its language (may be empty) and its text."""

    document: str
    line: int
    language: str
    text: str


def text_of(document: str) -> str:
    """The text of a document, by its path: README.md, or a path below docs/."""
    return (ROOT / document if (ROOT / document).exists() else ROOT / "docs" / document).read_text()


def blocks_of(document: str, language: str | None = None) -> list[Block]:
    """The fenced blocks of a document in order, or only those of `language`."""
    text = text_of(document)
    found = [
        Block(document, text.count("\n", 0, fence.start()) + 1, fence[1].strip(), fence[2])
        for fence in FENCE.finditer(text)
    ]
    return [block for block in found if language is None or block.language == language]
