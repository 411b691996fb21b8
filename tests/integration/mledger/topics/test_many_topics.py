"""One process owns many topics: they open together, and no resource of the process exists once per topic."""

import asyncio
import itertools
import socket
import threading
from urllib.parse import urlsplit

import mledger
from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import managed_ledger_path
from mledger.metastore.url import open_store
from mledger.topics.services.maintenance import Maintenance
from tests.support.aio import run
from tests.support.clock import Clock
from tests.support.topics import CONFIG, assert_nothing_orphaned, fill, managed_ledger_of

TOPICS, CURSORS = 200, 2
_groups = itertools.count(1)


def names_of(topic: str, count: int) -> list[str]:
    return [f"{topic}-{next(_groups)}-{number}" for number in range(count)]


def server_watches(url: str) -> int:
    """How many watches the ZooKeeper server holds for all its clients."""
    host, _, port = urlsplit(url).netloc.split(",")[0].partition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"wchs")
        answer = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
    return int(answer.rpartition("Total watches:")[2])


async def make(url: str, names: list[str], cursors: int) -> None:
    async with mledger.open_cluster(url, config=CONFIG) as cluster:
        made = await cluster.open_topics(names, create=True)
        assert made.failed == {}
        for opened in made.topics.values():
            positions = await fill(opened, 4)
            await asyncio.gather(*(opened.open_cursor(f"c{n}", initial=positions[1]) for n in range(cursors)))


def test_there_is_no_task_timer_watch_or_thread_per_topic(topic_url, topic):
    async def main():
        loop = asyncio.get_running_loop()
        names = names_of(topic, TOPICS)
        await make(topic_url, names, CURSORS)
        clock = Clock()
        async with mledger.open_cluster(topic_url, config=CONFIG, now_ms=clock) as cluster:
            first = await cluster.create_topic(f"{topic}-first")
            await first.initialized()

            def timers() -> int:
                return len([handle for handle in loop._scheduled if not handle.cancelled()])

            tasks, scheduled, watches = len(asyncio.all_tasks()), timers(), server_watches(topic_url)
            threads = threading.active_count()
            found = await cluster.open_topics(names)
            assert found.failed == {}
            assert [len(opened.open_cursors) for opened in found.topics.values()] == [CURSORS] * TOPICS
            while len(asyncio.all_tasks()) > tasks:  # what opening them began must end
                await asyncio.sleep(0.01)
            assert timers() <= scheduled + 3  # those of connections: reads that may time out, ends of time-outs
            assert server_watches(topic_url) <= watches
            assert threading.active_count() <= threads

    asyncio.run(main())  # not on uvloop, which does not show its timers


def test_topics_opened_together_are_unchanged_and_can_be_written(topic_url, topic):
    async def main():
        names = names_of(topic, 60)
        await make(topic_url, names, 1)
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            found = await cluster.open_topics(names)
            assert found.topics.keys() == set(names)
            for opened in found.topics.values():
                assert opened.open_cursors["c0"].backlog == 2
            await asyncio.gather(*(opened.append([b"on"]) for opened in found.topics.values()))
            assert [opened.number_of_entries for opened in found.topics.values()] == [5] * len(names)
        for name in names[:3]:
            await assert_nothing_orphaned(topic_url, managed_ledger_of(name))

    run(main())


def test_topics_of_a_killed_owner_are_opened_together(topic_url, topic):
    async def main():
        names = names_of(topic, 60)
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            made = await cluster.open_topics(names, create=True)
            for opened in made.topics.values():
                cursor = await opened.open_cursor("sub")
                positions = await fill(opened, 3)
                await cursor.acknowledge([positions[1]])
            for opened in made.topics.values():
                await opened.abandon()
            async with mledger.open_cluster(topic_url, config=CONFIG) as elsewhere:
                found = await elsewhere.open_topics(names, take_over=True)
                assert found.failed == {}
                for opened in found.topics.values():
                    (cursor,) = opened.open_cursors.values()
                    assert (opened.number_of_entries, cursor.backlog, len(cursor.holes)) == (3, 2, 1)
            for name in names[:3]:
                await assert_nothing_orphaned(topic_url, managed_ledger_of(name))

    run(main())


def test_a_topic_that_cannot_be_opened_does_not_stop_the_others(topic_url, topic):
    async def main():
        names = names_of(topic, 20)
        await make(topic_url, names[1:], 0)
        async with await open_store(topic_url) as store:
            await store.put(managed_ledger_path(managed_ledger_of(names[7])), b"\xff\xff", -1)
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            found = await cluster.open_topics([*names, names[3]])
            assert {name: type(error) for name, error in found.failed.items()} == {
                names[0]: mledger.TopicNotFound,
                names[7]: RecordError,
            }
            assert found.topics.keys() == set(names) - {names[0], names[7]}

    run(main())


def test_if_two_owners_open_the_same_topics_at_once_each_topic_has_one(topic_url, topic):
    async def main():
        names = names_of(topic, 25)
        await make(topic_url, names, 1)
        async with (
            mledger.open_cluster(topic_url, config=CONFIG) as one,
            mledger.open_cluster(topic_url, config=CONFIG) as other,
        ):
            both = await asyncio.gather(
                one.open_topics(names, take_over=True), other.open_topics(names, take_over=True)
            )
            for name in names:
                written = 0
                for found in both:
                    if name in found.failed:
                        assert isinstance(found.failed[name], mledger.ManagedLedgerFenced)
                        continue
                    try:
                        await found.topics[name].append([b"mine"])
                        written += 1
                    except mledger.ManagedLedgerFenced:
                        pass
                assert written == 1
        for name in names[:5]:
            await assert_nothing_orphaned(topic_url, managed_ledger_of(name))

    run(main())


def test_alarms_of_closed_topics_ring_no_more(topic_url, topic):
    async def main():
        names = names_of(topic, 10)
        clock = Clock()
        async with mledger.open_cluster(topic_url, config=CONFIG, now_ms=clock) as cluster:
            found = await cluster.open_topics(names, create=True)
            await asyncio.gather(*(opened.append([b"entry"]) for opened in found.topics.values()))
            for opened in found.topics.values():
                await opened.close()
            clock.ms += 2 * CONFIG.maximum_rollover_time_ms
            assert isinstance(cluster._services.maintenance, Maintenance)
            assert cluster.run_due() == 0

    run(main())
