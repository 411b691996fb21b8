"""Acknowledgements, and what is known of them, after restarts."""

import asyncio
from urllib.request import urlopen

import pytest
from msgspec.structs import replace

import mledger
from mledger.metastore.records.codec import decode_managed_cursor_info, encode_managed_cursor_info
from mledger.metastore.records.paths import cursor_path
from mledger.metastore.url import open_store
from tests.field_failures.owners import HOLES, MANY, SCENES, play
from tests.support.aio import run
from tests.support.ledgers import client
from tests.support.topics import KEEP, assert_nothing_orphaned, fill, recount

EVERY_OTHER = 0xAAAA_AAAA_AAAA_AAAA - (1 << 64)
"""A word of acknowledgements with entries 1, 3, 5, … in it."""


def restart_all(bookies) -> None:
    """Kill every bookie with -9 and start it again."""
    for bookie in bookies:
        bookie.kill()
    for bookie in bookies:
        bookie.launch()
    for bookie in bookies:
        bookie.wait_serving()


async def delivered(cursor: mledger.Cursor) -> list[mledger.Position]:
    """What a consumer receives from the cursor."""
    found = []
    while entries := await cursor.read(1_000):
        found += [entry.position for entry in entries]
    return found


def test_acknowledgements_survive_restarts_of_bookies_and_owner(bookies, topic):
    """pulsar-22709: bookies and brokers were restarted together; acknowledged messages came again, others never did."""
    bookies.start(3)
    url = bookies.metadata_url

    async def kill_all():
        said = await play("scattered", url, topic)
        await asyncio.to_thread(restart_all, bookies)
        return {name: [mledger.Position(*each) for each in said[name]] for name in ("appended", "flushed", "asked")}

    async def reopened(close):
        async with mledger.open_cluster(url, config=KEEP) as cluster:
            opened = await cluster.open_topic(topic, take_over=True)
            cursor = await opened.open_cursor("sub")
            found = await delivered(cursor)
            assert cursor.backlog == len(found)
            if close:
                await cursor.acknowledge(found[::2])
                await opened.close()
            return found

    async def main():
        said = await kill_all()
        found = await reopened(close=True)
        assert not set(found) & set(said["flushed"])
        never_asked = set(said["appended"]) - set(said["flushed"]) - set(said["asked"])
        assert never_asked <= set(found) <= never_asked | set(said["asked"])
        assert found == sorted(found)
        await asyncio.to_thread(restart_all, bookies)
        assert await reopened(close=False) == found[1::2]

    run(main())


def test_a_million_holes_survive_a_restart(field_url, topic):
    """pulsar-25540, pulsar-758, pulsar-19966: of more than 10,000 ranges the rest was silently dropped."""

    async def main():
        said = await play("holes", field_url, topic)
        async with mledger.open_cluster(field_url, config=MANY) as cluster:
            opened = await cluster.open_topic(topic, take_over=True)
            cursor = await opened.open_cursor("sub")
            assert (cursor.mark_delete, cursor.backlog) == (mledger.Position(said["ledger"], -1), HOLES)
            (bits,) = cursor.acks.ledger_bits()
            assert set(bits.words) == {EVERY_OTHER}
            assert len(bits.words) == 2 * HOLES // 64
            await opened.abandon()

    run(main())


@pytest.mark.parametrize("how", ["deleted", "empty", "unreadable"])
def test_properties_survive_an_unreadable_cursor_ledger(field_url, topic, how):
    """pulsar-26512: the state that replaced an unreadable cursor ledger was written without the properties."""

    async def spoil(cursor_ledger):
        async with client(field_url) as bookkeeper, await open_store(field_url) as store:
            if how == "deleted":
                await bookkeeper.delete_ledger(cursor_ledger)
                return
            writer = await bookkeeper.create_ledger(3, 3, 2)
            if how == "unreadable":
                await writer.append([b"\x08\x38\x10"])
            path = cursor_path(mledger.TopicName.parse(topic).managed_ledger_name, "sub")
            node = await store.get(path)
            record = decode_managed_cursor_info(node.data, path).value
            await store.put(
                path, encode_managed_cursor_info(replace(record, cursors_ledger_id=writer.ledger_id)), node.version
            )

    async def main():
        said = await play("properties", field_url, topic)
        await spoil(said["cursor_ledger"])
        for _ in range(2):  # the second owner finds what the first one wrote
            async with mledger.open_cluster(field_url, config=KEEP) as cluster:
                opened = await cluster.open_topic(topic, take_over=True)
                cursor = await opened.open_cursor("sub")
                assert cursor.properties == {"CompactedTopicLedger": 4711}
                assert cursor.cursor_properties == {"who": "me"}
                assert cursor.mark_delete == mledger.Position(*said["mark_delete"])
                await opened.abandon()

    run(main())


def test_acknowledged_entries_are_not_read_again_after_a_reload(bookies, topic):
    """pulsar-742, pulsar-446: after a reload everything after one missed message was read from bookies again."""
    bookies.start(3, "--metrics-port", "0")
    url = bookies.metadata_url

    async def main():
        said = await play("first missed", url, topic)
        async with mledger.open_cluster(url, config=SCENES["first missed"][1]) as cluster:
            opened = await cluster.open_topic(topic, take_over=True)
            cursor = await opened.open_cursor("sub")
            before = sum([read_bytes(bookie) for bookie in bookies])
            found = await delivered(cursor)
            assert found == [mledger.Position(*said["first"]), mledger.Position(*said["last"])]
            assert sum([read_bytes(bookie) for bookie in bookies]) - before < 2_000

    run(main())


def read_bytes(bookie) -> float:
    """Bytes with which a bookie has answered reads."""
    text = urlopen(f"http://127.0.0.1:{bookie.metrics_port}/metrics").read().decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("bookie_READ_BYTES"))


def test_a_cleared_backlog_is_not_delivered_again(field_url, topic):
    """pulsar-5377: messages delivered and not acknowledged came again after the backlog was cleared."""

    async def main():
        said = await play("cleared", field_url, topic)
        assert (said["delivered"], said["after_clearing"]) == (25, 0)
        async with mledger.open_cluster(field_url, config=KEEP) as cluster:
            opened = await cluster.open_topic(topic, take_over=True)
            cursor = await opened.open_cursor("sub")
            cursor.rewind()
            assert (await delivered(cursor), cursor.backlog) == ([], 0)
            (later,) = await fill(opened, 1)
            assert await delivered(cursor) == [later]

    run(main())


def test_the_backlog_is_exact_after_unload_and_death(field_url, topic):
    """pulsar-14223, pulsar-23239: after a restart or an unload the backlog differed from what was left to read."""

    async def check(opened) -> mledger.Cursor:
        cursor = await opened.open_cursor("sub")
        assert cursor.backlog == await recount(opened, cursor) == len(await delivered(cursor))
        return cursor

    async def main():
        await play("scattered", field_url, topic)
        async with mledger.open_cluster(field_url, config=KEEP) as cluster:
            for step in range(6):
                opened = await cluster.open_topic(topic, take_over=True)
                cursor = await check(opened)
                positions = await fill(opened, 7 + step)
                await cursor.acknowledge(positions[step % 3 :: 2])
                if step == 2:
                    await cursor.acknowledge_cumulative(positions[1])
                await opened.roll_over()
                cursor.rewind()
                await check(opened)
                await (opened.close() if step % 2 else opened.abandon())
            name = opened.name
        await assert_nothing_orphaned(field_url, name)

    run(main())
