"""Pulsar's managed ledger and ours take topics over from each other: same entries, positions, holes and backlogs."""

import subprocess
import sys

import pytest

import mledger
from tests.interop.topics import (
    CONFIG,
    MAX_ENTRIES,
    PAYLOADS,
    CursorView,
    TopicView,
    full_name,
    managed_ledger_name,
    view_java,
    view_ours,
    write_java,
    write_ours,
)
from tests.support.aio import run

pytestmark = pytest.mark.interop


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
    """Have a process of ours write the topic and kill it with -9."""
    command = [sys.executable, "-m", "tests.interop.topics", side.url, topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
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


def check(view: TopicView):
    """The topic is as written: what both writers do, whatever ids the ledgers got."""
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
