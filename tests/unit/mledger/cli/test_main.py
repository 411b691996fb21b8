"""The command's help, and options before or after the noun."""

from collections.abc import Iterator

import click
import pytest

from mledger.cli.main import command
from tests.support.cli import mledger


def groups(found: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Group]]:
    """Every group of commands by its words."""
    if isinstance(found, click.Group):
        yield path, found
        for name in found.list_commands(click.Context(found)):
            below = found.get_command(click.Context(found), name)
            assert below is not None
            yield from groups(below, (*path, name))


@pytest.mark.parametrize("width", [50, 80, 110])
@pytest.mark.parametrize(
    "group", [pytest.param(each, id=" ".join(path) or "mledger") for path, each in groups(command)]
)
def test_no_summary_of_a_command_is_cut_off(group: click.Group, width: int) -> None:
    shown = group.get_help(click.Context(group, info_name="mledger", terminal_width=width, max_content_width=width))
    assert "..." not in shown.partition("Commands:")[2]


@pytest.mark.parametrize("arguments", [("-o", "json", "context", "list"), ("context", "list", "-o", "json")])
def test_an_option_stands_before_or_after_the_noun(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setenv("MLEDGER_CONTEXTS", str(tmp_path / "contexts.toml"))
    assert mledger(*arguments).json == []


def test_the_later_of_context_and_metadata_wins(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("MLEDGER_CONTEXTS", str(tmp_path / "contexts.toml"))
    assert mledger("context", "add", "prod", "zk://prod:1").code == 0
    where = ("--dir", str(tmp_path / "nothing"))
    assert mledger("--context", "prod", "status", "--metadata", "zk://option:1", "--url").out == "zk://option:1\n"
    assert mledger("--metadata", "zk://option:1", "status", "--context", "prod", "--url").out == "zk://prod:1\n"
    assert mledger("status", "--url", *where).code == 3, "a directory that is named is meant before any context"
