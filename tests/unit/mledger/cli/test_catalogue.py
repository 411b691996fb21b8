"""The list of commands agrees with the modules that it names."""

import click
import pytest

from mledger.cli.catalogue import NOUNS
from mledger.cli.main import command
from mledger.cli.shared.command_groups import LazyCommand, LazyGroup

GROUPS = {noun: group.lazy for noun, group in NOUNS.items() if isinstance(group, LazyGroup)}
LAZY = {(): NOUNS} | {(noun,): commands for noun, commands in GROUPS.items()}
COMMANDS = [(*noun, name) for noun, names in LAZY.items() for name, lazy in names.items() if type(lazy) is LazyCommand]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_command_has_the_name_and_the_summary_of_the_list(path) -> None:
    lazy = LAZY[path[:-1]][path[-1]]
    found = lazy.load()
    assert found.name == path[-1]
    assert found.get_short_help_str(limit=2**31) == lazy.summary


@pytest.mark.parametrize("noun", GROUPS)
def test_a_group_has_the_name_of_the_list(noun) -> None:
    assert NOUNS[noun].name == noun


def test_completion_offers_names_with_summaries_and_imports_nothing() -> None:
    group = LazyGroup("nothing", help="Nothing.")
    group.lazy = {"one": LazyCommand("no_such_module:one", "First"), "two": LazyCommand("no_such_module:two", "Second")}
    found = group.shell_complete(click.Context(group), "t")
    assert [(each.value, each.help) for each in found] == [("two", "Second")]
    assert group.get_help(click.Context(group)).split()[-4:] == ["one", "First", "two", "Second"]


def test_an_unknown_name_is_no_command() -> None:
    assert command.get_command(click.Context(command), "no-such-noun") is None
