"""`cli.md`: each example prints what the page shows, on a real cluster; it has every command, option and exit code."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mledger.cli.main import command as mledger_command
from tests.support.commands.transcripts import check, commands_of, run_transcript

ROOT = Path(__file__).parents[4]
DOCUMENT = (ROOT / "docs" / "reference/cli.md").read_text()
COMMANDS = commands_of(DOCUMENT)
COMMON = (
    "## Options of every command",
    "## Options of commands that write",
    "## Options of commands that change existing data",
)


@pytest.fixture(scope="module")
def transcript(tmp_path_factory) -> Path:
    """The files with the output of the examples, run in order in one shell. What they started is stopped."""
    return run_transcript(COMMANDS, tmp_path_factory.mktemp("documentation"))


@pytest.mark.parametrize("index", range(len(COMMANDS)), ids=[command.name for command in COMMANDS])
def test_an_example_prints_what_the_page_shows(transcript, index) -> None:
    check(COMMANDS[index], index, transcript)


def leaves(group: click.Group, path: tuple[str, ...] = ("mledger",)) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below `group` by its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from leaves(found, (*path, name))
        else:
            yield (*path, name), found


EVERY = [pytest.param(path, found, id=" ".join(path[1:])) for path, found in leaves(mledger_command)]


def section(heading: str) -> str:
    """The text below a heading, up to the next of its level or above."""
    level = heading.index(" ")
    found = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{level}}} |\Z)", DOCUMENT, re.DOTALL | re.MULTILINE)
    assert found, f"docs/reference/cli.md has no section {heading!r}"
    return found[1]


@pytest.mark.parametrize(("path", "found"), EVERY)
def test_a_command_has_a_section_with_its_options_and_an_example(path, found) -> None:
    text = section(f"### {' '.join(path)}")
    common = "".join(map(section, COMMON))
    for parameter in found.params:
        if isinstance(parameter, click.Option):
            named = [name for name in parameter.opts if name.startswith("--")]
            assert any(f"{name}`" in text + common or f"{name} " in text + common for name in named), named
        else:
            assert parameter.human_readable_name in text, parameter.human_readable_name
    examples = commands_of(text)
    assert any(" ".join(path) in example.text for example in examples), "no example"


@pytest.mark.parametrize(("path", "found"), EVERY)
def test_help_has_an_example_that_can_be_typed(path, found, tmp_path, monkeypatch) -> None:
    said = found.get_help(click.Context(found, info_name=path[-1], terminal_width=300, max_content_width=300))
    examples = re.search(r"Examples?:\s+(.*?)(?:\n\s*\n|\Z)", said, re.DOTALL)
    assert examples, said
    typed = re.search(rf"mledger\b[^\n]*? {' '.join(path[1:])}\b([^|&>\n]*)", examples[1])
    assert typed, said
    arguments = shlex.split(typed[1])
    monkeypatch.chdir(tmp_path)
    for name in arguments:
        if name.endswith((".json", ".conf")):  # a file that must exist
            (tmp_path / name).touch()
    found.make_context(path[-1], arguments)


def test_every_exit_code_is_in_the_document() -> None:
    from mledger.cli.shared import errors

    codes = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, int)}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", section("## Exit codes"), re.MULTILINE)} >= codes
