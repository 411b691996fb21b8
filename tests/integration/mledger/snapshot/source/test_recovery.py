"""With `state=recovered`, rows show what opening the topics would find; nothing is fenced or written for it."""

import asyncio

import pytest

import mledger
from mledger.metastore.url import open_reader
from mledger.snapshot.source.recovery import GIVE_UP_AFTER
from tests.support.aio import run
from tests.support.snapshots import tables
from tests.support.topics import KEEP, fill

ORDERS, CLOSED, EMPTY = (f"persistent://public/default/{name}" for name in ("orders", "closed", "empty"))


@pytest.fixture
def cluster(bookies):
    """Three bookies, and the URL of their metadata."""
    bookies.start(3)
    return bookies.metadata_url, bookies


async def read(url, *names, **options):
    return await asyncio.to_thread(tables.read, {"metadata": url, "state": "recovered", **options}, *names)


async def tree(url, path="/"):
    """Versions of all nodes except ephemeral ones."""
    async with await open_reader(url) as reader:
        found, level = {}, [path]
        while level:
            nodes, listed = await reader.get_many(level), await reader.children_many(level)
            found |= {
                at: (node.data, node.version)
                for at, node in zip(level, nodes, strict=True)
                if node is not None and not node.stat.ephemeral_owner
            }
            level = [
                f"{at.rstrip('/')}/{name}" for at, names in zip(level, listed, strict=True) for name in names or ()
            ]
        return found


def row_of(rows, **key):
    (found,) = [row for row in rows if all(row[name] == value for name, value in key.items())]
    return found


def test_a_live_topic_is_shown_as_it_is_and_continues(cluster):
    url, _ = cluster

    async def main():
        async with mledger.open_cluster(url, config=KEEP) as opened:
            topic = await opened.create_topic(ORDERS)
            positions = await fill(topic, 25)
            cursor = await topic.open_cursor("billing", cursor_properties={"team": "a"})
            await cursor.acknowledge(positions[:4] + positions[6:8] + positions[12:13])
            await cursor.acknowledge_batch(positions[20], [0b110])
            before = await tree(url)
            found = await read(url, "cursors", "cursor_holes", "topic_ledgers", "errors")
            assert await tree(url) == before
            row = row_of(found["cursors"], cursor="billing")
            assert row["state"] == "recovered"
            assert (row["mark_delete_ledger_id"], row["mark_delete_entry_id"]) == tuple(positions[3])
            assert (row["holes"], row["partial_batches"]) == (2, 1)
            assert row["backlog"] == cursor.backlog
            assert row["rules"][0] == "R3"
            assert row["snapshot_ledger_id"] is not None
            assert row["error"] is None
            assert dict(row["cursor_properties"]) == {"team": "a"}
            holes = [(hole["upper_ledger_id"], hole["upper_entry_id"]) for hole in found["cursor_holes"]]
            assert holes == [tuple(positions[7]), tuple(positions[12]), tuple(positions[20])]
            last = row_of(found["topic_ledgers"], topic=ORDERS, last=True)
            assert (last["entries"], last["seen_entries"]) == (0, 5)
            assert found["errors"] == []
            # nothing was fenced: the owner appends and acknowledges as before
            await fill(topic, 5, 25)
            await cursor.acknowledge(positions[4:6])
            assert tuple(cursor.mark_delete) == tuple(positions[7])

    run(main())


def test_rows_show_what_opening_the_topic_finds(cluster):
    url, _ = cluster

    async def main():
        async with mledger.open_cluster(url, config=KEEP) as opened:
            for name in (ORDERS, CLOSED):
                topic = await opened.create_topic(name)
                positions = await fill(topic, 30)
                for number, subscription in enumerate(("one", "two", "three")):
                    cursor = await topic.open_cursor(subscription)
                    await cursor.acknowledge(positions[number : 20 : number + 1])
                if name == ORDERS:
                    await topic.abandon()
                else:
                    await topic.close()
            await (await opened.create_topic(EMPTY)).close()
        found = await read(url, "cursors", "topics")
        async with mledger.open_cluster(url, config=KEEP) as opened:
            told = 0
            for name in (ORDERS, CLOSED):
                topic = await opened.open_topic(name)
                await topic.initialized()
                for cursor in topic.open_cursors.values():
                    row = row_of(found["cursors"], topic=name, cursor=cursor.name)
                    at = row["mark_delete_ledger_id"], row["mark_delete_entry_id"]
                    moved = row["moves_to_ledger_id"], row["moves_to_entry_id"]
                    assert tuple(cursor.mark_delete) == (at if moved[0] is None else moved)
                    assert (row["backlog"], row["holes"]) == (cursor.backlog, len(cursor.holes))
                    told += 1
        assert told == 6
        assert len(found["topics"]) == 3

    run(main())


def test_a_cluster_whose_bookies_are_down_is_read_and_its_rows_say_so(cluster):
    url, bookies = cluster
    topics = [f"persistent://public/default/t{number}" for number in range(GIVE_UP_AFTER + 40)]

    async def write():
        async with mledger.open_cluster(url, config=KEEP) as opened:
            for name in topics:
                topic = await opened.create_topic(name)
                await topic.open_cursor("sub")
                await fill(topic, 1)
                await topic.abandon()

    run(write())
    for number in range(3):
        bookies.kill(number)
    found = tables.read({"metadata": url, "state": "recovered"}, "cursors", "topics", "topic_ledgers")
    stored = tables.read({"metadata": url}, "cursors", "topics")
    assert found["topics"] == stored["topics"]
    assert {row["state"] for row in found["cursors"]} == {"unreadable"}
    assert len(found["cursors"]) == len(topics)
    assert all(row["error"] and "\n" not in row["error"] for row in found["cursors"] + found["topic_ledgers"])
    said = [row["error"] for row in found["cursors"]]
    assert sum("not read" in error for error in said) > 0
    for row, before in zip(found["cursors"], stored["cursors"], strict=True):
        assert row["mark_delete_ledger_id"] == before["mark_delete_ledger_id"]
