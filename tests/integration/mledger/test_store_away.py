"""The metadata store frozen, restarted, and a connection lost just when an answer was due (M7)."""

import asyncio

import pytest

import mledger
from tests.support.aio import run
from tests.support.bookies import BookieProcesses, initialize_cluster
from tests.support.topics import KEEP, assert_nothing_orphaned, everything, fill, payloads, recount

TOPIC = "persistent://tests/ns/away"


@pytest.fixture
def own_cluster(zookeeper_server, tmp_path):
    """A metadata store that can be frozen and restarted, and three bookies."""
    initialize_cluster(zookeeper_server.url)
    processes = BookieProcesses(zookeeper_server.url, tmp_path / "bookies")
    processes.start(3)
    yield zookeeper_server, processes
    processes.close()


def test_a_stalled_store_holds_rollover_and_cursor_switch_up_and_loses_nothing(own_cluster):
    zookeeper, bookies = own_cluster

    async def main():
        async with mledger.open_cluster(bookies.metadata_url, config=KEEP, session_timeout=20) as cluster:
            opened = await cluster.create_topic(TOPIC)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            zookeeper.freeze()
            appended = [opened.append(payloads(3, 9 + 3 * number)) for number in range(10)]
            acknowledged = cursor.acknowledge(positions[1:4])
            await asyncio.sleep(0.5)
            assert not acknowledged.done()
            assert not appended[-1].done()
            zookeeper.thaw()
            await asyncio.gather(acknowledged, *appended)
            assert await everything(opened) == payloads(39)
            assert cursor.backlog == await recount(opened, cursor) == 36
            name = opened.name
        await assert_nothing_orphaned(bookies.metadata_url, name)

    run(main())


def test_a_restarted_store_finds_the_owner_still_owner(own_cluster):
    zookeeper, bookies = own_cluster

    async def main():
        async with mledger.open_cluster(bookies.metadata_url, config=KEEP, session_timeout=20) as cluster:
            opened = await cluster.create_topic(TOPIC)
            await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            appended = [opened.append(payloads(3, 9 + 3 * number)) for number in range(20)]
            acknowledged = cursor.acknowledge([mledger.Position(opened.ledgers[0].ledger_id, 2)])
            await asyncio.to_thread(zookeeper.kill)
            await asyncio.to_thread(zookeeper.restart)
            await asyncio.gather(acknowledged, *appended)
            assert opened.state is mledger.TopicState.OPEN
            assert await everything(opened) == payloads(69)
            name = opened.name
        await assert_nothing_orphaned(bookies.metadata_url, name)

    run(main(), timeout=100)
