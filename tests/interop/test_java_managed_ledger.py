"""Pulsar's managed ledger and ours take topics over from each other: same entries, positions, holes and backlogs."""

import subprocess
import sys
from dataclasses import replace

import pytest

import mledger
from mledger.metastore.records.ledger_metadata import DigestType
from tests.interop.topics import (
    CONFIG,
    MAX_ENTRIES,
    PAYLOADS,
    CursorView,
    ReportedTopic,
    full_name,
    managed_ledger_name,
    view_java,
    view_ours,
    write_java,
    write_ours,
)
from tests.support.aio import run
from tests.support.forked_python import ForkedPython
from tests.support.java.driver import OriginalError

pytestmark = pytest.mark.interop

LEFT_OF_BATCH = [0b1010_1111_0101]


@pytest.fixture
def topic(request):
    """A topic of this test's own."""
    return "".join(character if character.isalnum() else "-" for character in request.node.name)


def with_cluster(side, work):
    """Run `await work(cluster)` with a cluster of ours."""

    async def main():
        async with mledger.open_cluster(side.url) as cluster:
            return await work(cluster)

    return run(main())


def own_and_kill(side, topic):
    """Make a process of ours write the topic, and kill it with -9."""
    command = [sys.executable, "-m", "tests.interop.topics", side.url, topic]
    with ForkedPython(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout.readline() == "written\n"
        owner.kill()


def opened_by_java(java, topic, **options):
    java.call("topic.open", topic=managed_ledger_name(topic), max_entries=MAX_ENTRIES, **options)
    return view_java(java, topic)


def opened_by_us(side, topic, config=CONFIG):
    async def look(cluster):
        ledger = await cluster.open_topic(full_name(topic), config=config)
        view = await view_ours(ledger)
        cursor = await ledger.open_cursor("untouched")
        entries = await cursor.read(len(PAYLOADS) + 1)
        return view, [entry.payload for entry in entries]

    return with_cluster(side, look)


def java_reads(java, topic, cursor):
    answer = java.call("topic.read", topic=managed_ledger_name(topic), cursor=cursor, count=len(PAYLOADS) + 1)
    return [bytes.fromhex(payload) for _, _, payload in answer["entries"]]


def check(view: ReportedTopic):
    """Assert that the topic is as written: what both writers do, whatever ids the ledgers got."""
    ids = [ledger_id for ledger_id, _, _ in view.ledgers]
    sizes = [sum(map(len, PAYLOADS[start : start + MAX_ENTRIES])) for start in range(0, len(PAYLOADS), MAX_ENTRIES)]
    assert view.ledgers == list(zip(ids, (40, 40, 20), sizes, strict=True))
    assert (view.entries, view.size) == (len(PAYLOADS), sum(sizes))
    first, second, third = ids
    holes = (
        f"[({first}:9..{first}:10],({first}:11..{first}:12],({first}:13..{first}:14],"
        f"({second}:4..{second}:6],({third}:18..{third}:19]]"
    )
    by_name = {cursor.name: cursor for cursor in view.cursors}
    assert by_name == {
        "untouched": CursorView("untouched", (first, -1), 100, "[]", {}, {}),
        "cumulative": CursorView("cumulative", (first, 29), 70, "[]", {"number": 7}, {}),
        "holes": CursorView("holes", (first, 3), 90, holes, {}, {"colour": "grün"}),
        "consumed": CursorView("consumed", (second, -1), 60, "[]", {}, {}),
        "at/the end": CursorView("at/the end", by_name["at/the end"].mark_delete, 0, "[]", {}, {}),
    }


def test_java_opens_what_we_closed(side, topic):
    async def write(cluster):
        ledger = await cluster.create_topic(full_name(topic), config=CONFIG)
        await write_ours(ledger)
        await ledger.close()

    with_cluster(side, write)
    check(opened_by_java(side.java, topic))
    assert java_reads(side.java, topic, "untouched") == PAYLOADS


def test_java_opens_what_our_killed_owner_left(side, topic):
    own_and_kill(side, topic)
    check(opened_by_java(side.java, topic))
    assert java_reads(side.java, topic, "untouched") == PAYLOADS


@pytest.mark.parametrize("long_array", [False, True])
def test_we_open_what_java_closed(side, topic, long_array):
    write_java(side.java, topic, long_array=long_array)
    side.java.call("topic.close", topic=managed_ledger_name(topic))
    view, payloads = opened_by_us(side, topic)
    check(view)
    assert payloads == PAYLOADS


@pytest.mark.parametrize("long_array", [False, True])
def test_we_open_what_a_killed_java_owner_left(side, topic, long_array, start_original):
    with start_original() as java:
        java.call("topic.connect", zookeeper=side.bookies.tree.zookeeper)
        write_java(java, topic, long_array=long_array)
    view, payloads = opened_by_us(side, topic)
    check(view)
    assert payloads == PAYLOADS


@pytest.mark.parametrize("digest", ["CRC32", "MAC", "DUMMY"])
def test_a_topic_with_another_digest_and_a_password_goes_to_java_and_back(side, topic, digest):
    config = replace(CONFIG, digest_type=DigestType["HMAC" if digest == "MAC" else digest], password=b"secret")

    async def write(cluster):
        ledger = await cluster.create_topic(full_name(topic), config=config)
        await write_ours(ledger)
        await ledger.close()

    with_cluster(side, write)
    check(opened_by_java(side.java, topic, digest=digest, password="secret"))
    side.java.call("topic.close", topic=managed_ledger_name(topic))
    view, payloads = opened_by_us(side, topic, config)
    check(view)
    assert payloads == PAYLOADS


def test_owners_take_turns_and_each_continues_where_the_other_stopped(side, topic):
    name, written, acknowledged = managed_ledger_name(topic), [], []

    async def ours(cluster):
        ledger = await cluster.open_topic(full_name(topic), config=CONFIG, create=True)
        cursor = await ledger.open_cursor("shared")
        payloads = [b"ours %d" % number for number in range(len(written), len(written) + 10)]
        (where,) = await ledger.append(payloads)
        written.extend(zip(where.positions(), payloads, strict=True))
        acknowledged.append(where.positions()[3])
        await cursor.acknowledge([where.positions()[3]])
        left = [entry.payload for entry in await cursor.read(1000)]
        backlog = cursor.backlog
        await ledger.close()
        return left, backlog

    def java():
        side.java.call("topic.open", topic=name, max_entries=MAX_ENTRIES)
        side.java.call("topic.cursor", topic=name, cursor="shared")
        payloads = [b"java %d" % number for number in range(len(written), len(written) + 10)]
        entries = [payload.hex() for payload in payloads]
        positions = side.java.call("topic.append", topic=name, entries=entries)["positions"]
        written.extend((mledger.Position(*where), payload) for where, payload in zip(positions, payloads, strict=True))
        acknowledged.append(mledger.Position(*positions[5]))
        side.java.call("topic.ack", topic=name, cursor="shared", positions=[positions[5]])
        (cursor,) = side.java.call("topic.state", topic=name)["cursors"]
        answer = side.java.call("topic.read", topic=name, cursor="shared", count=1000)
        side.java.call("topic.close", topic=name)
        return [bytes.fromhex(payload) for _, _, payload in answer["entries"]], cursor["backlog"]

    for _ in range(3):
        for turn in (lambda: with_cluster(side, ours), java):
            left, backlog = turn()
            assert left == [payload for where, payload in written if where not in acknowledged]
            assert backlog == len(left)
    assert len(written) == 60


def test_java_takes_a_topic_from_its_live_owner(side, topic):
    async def lose(cluster):
        ledger = await cluster.create_topic(full_name(topic), config=CONFIG)
        await write_ours(ledger)
        check(opened_by_java(side.java, topic))
        with pytest.raises(mledger.ManagedLedgerFenced):
            await ledger.append([b"late"])
        assert ledger.state is mledger.TopicState.FENCED

    with_cluster(side, lose)
    assert java_reads(side.java, topic, "untouched") == PAYLOADS
    side.java.call("topic.append", topic=managed_ledger_name(topic), entries=[b"Java's".hex()])


def test_we_take_a_topic_from_its_live_java_owner(side, topic):
    write_java(side.java, topic)
    view, payloads = opened_by_us(side, topic)
    check(view)
    assert payloads == PAYLOADS
    with pytest.raises(OriginalError) as refused:
        side.java.call("topic.append", topic=managed_ledger_name(topic), entries=[b"late".hex()])
    assert "Fenced" in refused.value.name or "BadVersion" in refused.value.name


def test_java_finds_a_topic_terminated_that_we_terminated(side, topic):
    async def write(cluster):
        ledger = await cluster.create_topic(full_name(topic), config=CONFIG)
        await write_ours(ledger)
        await ledger.terminate()
        await ledger.close()

    with_cluster(side, write)
    view = opened_by_java(side.java, topic)
    assert view.terminated
    check(view)
    with pytest.raises(OriginalError, match="Terminated"):
        side.java.call("topic.append", topic=managed_ledger_name(topic), entries=[b"late".hex()])


def test_we_find_a_topic_terminated_that_java_terminated(side, topic):
    write_java(side.java, topic)
    side.java.call("topic.terminate", topic=managed_ledger_name(topic))
    side.java.call("topic.close", topic=managed_ledger_name(topic))

    async def look(cluster):
        ledger = await cluster.open_topic(full_name(topic), config=CONFIG)
        view = await view_ours(ledger)
        with pytest.raises(mledger.TopicTerminated):
            await ledger.append([b"late"])
        return view

    view = with_cluster(side, look)
    assert view.terminated
    check(view)


def test_thousands_of_holes_go_to_java_and_back(side, topic):
    name, config = managed_ledger_name(topic), replace(CONFIG, max_entries_per_ledger=50_000)

    async def write(cluster):
        ledger = await cluster.create_topic(full_name(topic), config=config)
        (where,) = await ledger.append([b"%d" % number for number in range(10_000)])
        cursor = await ledger.open_cursor("holes")
        await cursor.acknowledge(where.positions()[1::2])
        await ledger.close()
        return cursor.individually_deleted, cursor.backlog

    holes, backlog = with_cluster(side, write)
    side.java.call("topic.open", topic=name)
    (cursor,) = side.java.call("topic.state", topic=name)["cursors"]
    assert (cursor["holes"], cursor["backlog"]) == (holes, backlog) == (holes, 5000)
    side.java.call("topic.close", topic=name)

    async def look(cluster):
        ledger = await cluster.open_topic(full_name(topic), config=config)
        cursor = await ledger.open_cursor("holes")
        return cursor.individually_deleted, cursor.backlog

    assert with_cluster(side, look) == (holes, backlog)


def test_java_finds_the_batch_indexes_that_we_acknowledged(side, topic):
    config = replace(CONFIG, deletion_at_batch_index_level_enabled=True)

    async def write(cluster):
        ledger = await cluster.create_topic(full_name(topic), config=config)
        (where,) = await ledger.append(PAYLOADS[:10])
        cursor = await ledger.open_cursor("batches")
        await cursor.acknowledge_batch(where.positions()[4], LEFT_OF_BATCH)
        await ledger.close()
        return where.positions()[4]

    position = with_cluster(side, write)
    opened_by_java(side.java, topic, batch_index=True)
    found = side.java.call(
        "topic.batch_index", topic=managed_ledger_name(topic), cursor="batches", position=list(position)
    )
    assert found["ack_set"] == LEFT_OF_BATCH


def test_we_find_the_batch_indexes_that_java_acknowledged(side, topic, start_original):
    name = managed_ledger_name(topic)
    with start_original() as java:
        java.call("topic.connect", zookeeper=side.bookies.tree.zookeeper)
        java.call("topic.open", topic=name, batch_index=True)
        entries = [payload.hex() for payload in PAYLOADS[:10]]
        positions = java.call("topic.append", topic=name, entries=entries)["positions"]
        java.call("topic.cursor", topic=name, cursor="batches")
        # Java keeps batch indexes only in a cursor ledger, and only a whole entry's acknowledgement creates one
        java.call("topic.ack", topic=name, cursor="batches", positions=[positions[7]])
        java.call("topic.ack_batch", topic=name, cursor="batches", position=positions[4], ack_set=LEFT_OF_BATCH)

    async def look(cluster):
        config = replace(CONFIG, deletion_at_batch_index_level_enabled=True)
        ledger = await cluster.open_topic(full_name(topic), config=config)
        cursor = await ledger.open_cursor("batches")
        return cursor.batch_deleted(mledger.Position(*positions[4])), cursor.backlog

    assert with_cluster(side, look) == (tuple(LEFT_OF_BATCH), 9)
