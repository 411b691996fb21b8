"""`mledger metadata get|tree` on a real cluster."""

import pytest

from tests.support.cli import answer, ok


@pytest.fixture
def ledger(url, topic):
    """A closed ledger of a topic, with ten entries."""
    ok("topics", "create", topic, url=url)
    return int(answer("topics", "produce", topic, "--count", 10, url=url)["first"].split(":")[0])


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/managed-ledgers/public/default/persistent/{topic}", "managed ledger"),
        ("/managed-ledgers/public/default/persistent/{topic}/one", "cursor"),
        ("/ledgers/LAYOUT", "text"),
        ("/managed-ledgers", "empty"),
    ],
)
def test_nodes_are_decoded_by_what_they_hold(url, topic, ledger, path, kind) -> None:
    ok("cursors", "create", topic, "one", url=url)
    got = answer("metadata", "get", path.format(topic=topic.rpartition("/")[2]), url=url)
    assert got["kind"] == kind


def test_a_topics_node_shows_its_ledgers(url, topic, ledger) -> None:
    path = f"/managed-ledgers/public/default/persistent/{topic.rpartition('/')[2]}"
    value = answer("metadata", "get", path, url=url)["value"]
    assert ledger in [each["ledger_id"] for each in value["ledgers"]]


def test_the_tree_shows_every_node_below_a_path(url, topic, ledger) -> None:
    shown = answer("metadata", "tree", "/managed-ledgers", url=url)
    paths = [each["path"] for each in shown]
    assert paths[0] == "/managed-ledgers"
    assert f"/managed-ledgers/public/default/persistent/{topic.rpartition('/')[2]}" in paths
    assert all(path.startswith("/managed-ledgers") for path in paths)


def test_the_tree_stops_at_its_limit_and_says_so(url) -> None:
    done = ok("metadata", "tree", "/", "--limit", 3, "--output", "json", url=url)
    assert len(done.json) == 3
    assert "--limit" in done.err


def test_what_a_terminal_would_obey_is_escaped(url, topic) -> None:
    """A client can set any property: the value begins with a control of eight bits and a mark of direction."""
    ok("topics", "create", topic, url=url)
    ok("cursors", "create", topic, "one\u202e", "--property", "note=\x9b2J\u202eevil", url=url)
    path = f"/managed-ledgers/public/default/persistent/{topic.rpartition('/')[2]}"
    (cursor,) = [each["path"] for each in answer("metadata", "tree", path, url=url)][1:]
    shown = ok("metadata", "get", cursor, url=url).out
    assert '"note": "\\x9b2J\\u202eevil"' in shown
    assert "\u202e" not in shown + ok("metadata", "tree", path, url=url).out
