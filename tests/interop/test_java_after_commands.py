"""Pulsar's managed ledger opens what our commands left of a topic's cursors, and what undo restored."""

import pytest

from tests.interop.test_java_managed_ledger import check, opened_by_java, own_and_kill
from tests.interop.topics import full_name
from tests.support.cli import ok

pytestmark = pytest.mark.interop


@pytest.fixture
def topic(request):
    """A topic of this test's own."""
    return "".join(character if character.isalnum() else "-" for character in request.node.name)


def change(side, topic, undo_files):
    """Move three cursors of the topic that a killed owner left."""
    own_and_kill(side, topic)
    name = full_name(topic)
    for number, arguments in enumerate(
        (
            ["skip", name, "untouched", 50],
            ["reset", name, "holes", "--to", "earliest"],
            ["set-properties", name, "cumulative", "team=blue"],
            ["clear", name, "consumed"],
        )
    ):
        file = undo_files / f"{number}.json"
        ok("cursors", *arguments, "--yes", "--take-over", "--undo-file", file, url=side.url)


def test_java_finds_cursors_where_commands_put_them(side, topic, tmp_path):
    change(side, topic, tmp_path)
    cursors = {cursor.name: cursor for cursor in opened_by_java(side.java, topic).cursors}
    assert {name: cursor.backlog for name, cursor in cursors.items()} == {
        "untouched": 50,
        "holes": 100,
        "cumulative": 70,
        "consumed": 0,
        "at/the end": 0,
    }
    assert cursors["holes"].holes == "[]"
    assert cursors["holes"].cursor_properties == {"colour": "grün"}
    assert cursors["cumulative"].cursor_properties == {"team": "blue"}


def test_java_finds_a_topic_as_it_was_once_everything_is_undone(side, topic, tmp_path):
    change(side, topic, tmp_path)
    for file in sorted(tmp_path.glob("*.json")):
        ok("undo", file, "--yes", "--take-over", "--undo-file", file.with_suffix(".redo"), url=side.url)
    check(opened_by_java(side.java, topic))
