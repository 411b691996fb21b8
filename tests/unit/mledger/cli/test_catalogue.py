"""The list of commands and what is in the modules that it names."""

import click
import pytest

from mledger.cli.catalogue import NOUNS
from mledger.cli.main import command
from mledger.cli.shared.command_groups import LateCommand, LateGroup

GROUPS = {noun: group.late for noun, group in NOUNS.items() if isinstance(group, LateGroup)}
LATE = {(): NOUNS} | {(noun,): commands for noun, commands in GROUPS.items()}
COMMANDS = [(*noun, name) for noun, names in LATE.items() for name, late in names.items() if type(late) is LateCommand]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_command_has_the_name_and_the_summary_that_it_is_listed_with(path) -> None:
    late = LATE[path[:-1]][path[-1]]
    found = late.load()
    assert found.name == path[-1]
    assert found.get_short_help_str(limit=2**31) == late.summary


@pytest.mark.parametrize("noun", GROUPS)
def test_a_group_has_the_name_that_it_is_listed_with(noun) -> None:
    assert NOUNS[noun].name == noun


def test_names_are_completed_with_their_summaries_and_nothing_is_imported() -> None:
    group = LateGroup("nothing", help="Nothing.")
    group.late = {"one": LateCommand("no_such_module:one", "First"), "two": LateCommand("no_such_module:two", "Second")}
    found = group.shell_complete(click.Context(group), "t")
    assert [(each.value, each.help) for each in found] == [("two", "Second")]
    assert group.get_help(click.Context(group)).split()[-4:] == ["one", "First", "two", "Second"]


def test_a_name_that_is_none_is_no_command() -> None:
    assert command.get_command(click.Context(command), "no-such-noun") is None
