"""Tables of a cluster that Java wrote, and still owns, agree with what Java reports, and do not disturb it."""

import pytest

from tests.interop.topics import PAYLOADS, CursorView, full_name, managed_ledger_name, view_java, write_java
from tests.support.snapshots import tables

pytestmark = pytest.mark.interop


@pytest.fixture
def topic(request):
    """A topic of this test's own."""
    return "".join(character if character.isalnum() else "-" for character in request.node.name)


@pytest.fixture
def live(side, topic):
    """A topic that is open in Java, as Java sees it, and the tables of the cluster."""
    write_java(side.java, topic)
    view = view_java(side.java, topic)
    found = tables.read({"metadata": side.url, "state": "recovered", "topic": full_name(topic)})
    yield side, view, found
    side.java.call("topic.close", topic=managed_ledger_name(topic))


def cursor_views(found):
    """Cursors of the table in the form of Java's."""
    for row in found["cursors"]:
        at = row["mark_delete_ledger_id"], row["mark_delete_entry_id"]
        moved = row["moves_to_ledger_id"], row["moves_to_entry_id"]
        holes = [
            f"({hole['lower_ledger_id']}:{hole['lower_entry_id']}..{hole['upper_ledger_id']}:{hole['upper_entry_id']}]"
            for hole in found["cursor_holes"]
            if hole["cursor"] == row["cursor"]
        ]
        yield CursorView(
            row["cursor"],
            at if moved[0] is None else moved,
            row["backlog"],
            f"[{','.join(holes)}]",
            dict(row["properties"]),
            dict(row["cursor_properties"]),
        )


def test_cursors_and_ledgers_are_as_java_reports_them(live, topic):
    side, view, found = live
    assert found["errors"] == []
    closed = [(row["ledger_id"], row["entries"], row["size"]) for row in found["topic_ledgers"] if row["entries"]]
    assert closed == view.ledgers
    (last,) = [row for row in found["topic_ledgers"] if row["last"]]
    assert sum(row[1] for row in closed) + last["seen_entries"] == view.entries
    assert sum(row[2] for row in closed) + last["seen_size"] == view.size
    theirs = {cursor.name: cursor for cursor in view.cursors}
    ours = {cursor.name: cursor for cursor in cursor_views(found)}
    assert ours == theirs
    assert found["topics"][0]["cursors"] == len(theirs)
    # Java is still the owner: nothing has fenced it
    side.java.call("topic.append", topic=managed_ledger_name(topic), entries=[payload.hex() for payload in PAYLOADS])
    assert view_java(side.java, topic).entries == 2 * len(PAYLOADS)


def test_ledger_metadata_is_as_java_reports_it(live):
    side, _, found = live
    named = {row["ledger_id"] for row in found["topic_ledgers"]}
    named |= {row["cursor_ledger_id"] for row in found["cursors"]} - {-1}
    rows = {row["ledger_id"]: row for row in found["ledgers"]}
    assert named <= set(rows)
    for ledger_id in sorted(named):
        row = rows[ledger_id]
        java = side.java.call("ledger.metadata", ledger=ledger_id)
        ensembles = {}
        for member in found["ensembles"]:
            if member["ledger_id"] == ledger_id:
                ensembles.setdefault(member["first_entry"], []).append(member["bookie_id"])
        assert row["state"] == java["state"]
        assert row["last_entry"] == (java["last_entry"] if java["state"] == "CLOSED" else None)
        assert row["digest_type"] == java["digest"]
        assert dict(row["custom_metadata"]) == java["custom"]
        assert [[first, members] for first, members in ensembles.items()] == java["ensembles"]
        assert row["topic"] == found["topics"][0]["topic"]


def test_bookies_are_as_registered(live):
    side, _, found = live
    assert [row["bookie_id"] for row in found["bookies"]] == sorted(side.bookies.ids)
    assert {row["state"] for row in found["bookies"]} == {"writable"}
