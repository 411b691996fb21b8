"""`operators-table.md`: each row names an existing test and existing commands, and each test has a row."""

import re
from pathlib import Path

import click
import pytest

from mledger.cli.main import command as mledger_command

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "reference/operators-table.md").read_text()
SOURCES = [ROOT / "tests/interop" / name for name in ("test_operators_table.py", "rows_of_bookkeeper_shell.py")]
TESTS = {name for path in SOURCES for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)}
ABOUT_THE_DOCUMENT = {"test_every_command_of_bookkeeper_shell_is_in_the_table"}
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in DOCUMENT.partition("## Not here")[0].splitlines()
    if line.startswith("| `")
]


def test_each_row_names_existing_tests() -> None:
    assert len(ROWS) > 40
    for row in ROWS:
        assert len(row) == 4, row
        named = set(re.findall(r"`(test_\w+)`", row[3]))
        assert named, row
        assert named <= TESTS, row


def test_each_test_is_named_by_a_row() -> None:
    named = {name for row in ROWS for name in re.findall(r"`(test_\w+)`", row[3])}
    assert named == TESTS - ABOUT_THE_DOCUMENT


def find(words: list[str]) -> click.Command:
    """The command that the words call."""
    found: click.Command = mledger_command
    for word in words:
        assert isinstance(found, click.Group), words
        below = found.get_command(click.Context(found), word)
        assert below is not None, words
        found = below
    return found


COMMANDS = sorted(
    set(re.findall(r"`((?:topics|cursors|ledgers|bookies|metadata) [^`…]+)`", DOCUMENT)) - {"topics set-"}
)


@pytest.mark.parametrize("text", COMMANDS)
def test_each_of_our_commands_exists_with_these_options(text) -> None:
    words = text.split()
    found = find([word for word in words if not word.startswith("-")])
    options = {name for parameter in found.params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert not isinstance(found, click.Group), text
    assert {word for word in words if word.startswith("-")} <= options, text


def test_what_mledger_lacks_has_a_reason() -> None:
    rows = [line for line in DOCUMENT.partition("## Not here")[2].splitlines() if line.startswith("| `")]
    assert rows
    assert all(len(row.strip("|").split(" | ")) == 2 for row in rows)
