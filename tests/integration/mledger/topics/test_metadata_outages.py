"""The metadata store frozen, restarted, and a connection lost just when an answer was due (M7)."""

import asyncio
import signal
import sys

import pytest

import mledger
from mledger.bookie.client.config import ClientConfig
from mledger.events import Fenced
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.paths import owner_path
from tests.support.aio import run
from tests.support.bookies.processes import ROOT, BookieProcesses, initialize_cluster
from tests.support.metadata.held_answers import held_answers
from tests.support.topics import (
    KEEP,
    Events,
    assert_nothing_orphaned,
    everything,
    fill,
    managed_ledger_of,
    payloads,
    recount,
)
from tests.support.zookeeper.server import SHORT_SESSION_S


@pytest.fixture
def held(topic_url):
    """A link to the cluster's ZooKeeper that can be cut."""
    with held_answers(topic_url) as held:
        yield held


TOPIC = "persistent://tests/ns/away"


@pytest.fixture
def own_cluster(zookeeper_server, tmp_path):
    """A metadata store that can be frozen and restarted, and three bookies."""
    initialize_cluster(zookeeper_server.url)
    processes = BookieProcesses(zookeeper_server.url, tmp_path / "bookies")
    processes.start(3)
    yield zookeeper_server, processes
    processes.close()


def test_a_stalled_store_delays_rollover_and_cursor_switch_and_loses_nothing(own_cluster):
    zookeeper, bookies = own_cluster

    async def main():
        async with mledger.open_cluster(bookies.metadata_url, config=KEEP, session_timeout=60) as cluster:
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


@pytest.mark.parametrize("retry", ["terminate", "roll_over"])
def test_a_ledger_whose_close_failed_while_the_store_was_away_is_closed_later(own_cluster, retry):
    zookeeper, bookies = own_cluster
    armed = []

    def freeze(step):
        if step == "close ledger" and armed:
            armed.clear()
            zookeeper.freeze()

    async def main():
        client = ClientConfig(metadata_timeout_s=1.0)
        async with mledger.open_cluster(
            bookies.metadata_url, config=KEEP, client=client, session_timeout=60
        ) as cluster:
            opened = await cluster.create_topic(TOPIC, on_step=freeze)
            await fill(opened, 5)
            armed.append(True)
            with pytest.raises(StoreUnavailable):
                await opened.terminate()
            zookeeper.thaw()
            if retry == "terminate":
                assert await opened.terminate() == opened.last_confirmed
            else:
                await opened.roll_over()
                assert [ledger.entries for ledger in opened.ledgers] == [5, 0]
            assert await everything(opened) == payloads(5)
            name = opened.name
        await assert_nothing_orphaned(bookies.metadata_url, name)

    run(main())


def test_after_a_restart_of_the_store_the_owner_is_still_the_owner(own_cluster):
    zookeeper, bookies = own_cluster

    async def main():
        async with mledger.open_cluster(bookies.metadata_url, config=KEEP, session_timeout=60) as cluster:
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

    run(main())


@pytest.mark.parametrize("taken", [False, True])
def test_an_owner_whose_session_has_ended_continues_unless_another_took_the_topic(topic_url, topic, taken):
    async def main():
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.owners.frozen_owner", topic_url, topic),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert await process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGSTOP)
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            path = owner_path(managed_ledger_of(topic))
            async with cluster.metadata.watch(path) as changes:
                if await cluster.metadata.exists(path):
                    await anext(changes)
            if taken:
                opened = await cluster.open_topic(topic)
                await opened.initialized()
            process.send_signal(signal.SIGCONT)
            out, _ = await process.communicate(b"go on\n")
            *errors, last = out.decode().splitlines()
            if taken:
                assert len(errors) == 2
                assert all("this owner has stopped" in error for error in errors)
                assert last.startswith("fenced fenced ")
            else:
                assert errors == []
                assert last == "open open 13"
                opened = await cluster.open_topic(topic)
                assert await everything(opened) == payloads(14)
            assert (await everything(opened))[:9] == payloads(9)
            acknowledged = 0 if taken else 1
            assert (await opened.open_cursor("sub")).backlog == opened.number_of_entries - acknowledged

    run(main())


def test_the_owner_node_is_created_again_in_the_next_session(held, topic):
    async def main():
        async with mledger.open_cluster(held.url, config=KEEP, session_timeout=SHORT_SESSION_S) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            path = owner_path(opened.name)
            async with held.direct() as store:
                claim = (await store.get(path)).data
                await held.lose_session(path)
                while await store.exists(path) is None:
                    await asyncio.sleep(0.05)
                assert (await store.get(path)).data == claim
                assert (await store.get(path)).stat.ephemeral_owner == cluster.metadata.session_id
            await opened.append(payloads(12, 9))  # also to another ledger
            await cursor.acknowledge(positions[:3])
            assert (opened.state, cursor.durable_mark_delete) == (mledger.TopicState.OPEN, positions[2])
            assert [each.entries for each in opened.ledgers[:2]] == [10, 10]  # the ledger from before was used on
            assert await everything(opened) == payloads(21)
            name = opened.name
        await assert_nothing_orphaned(held.direct_url, name)

    run(main())


def test_the_owner_node_is_created_again_if_the_session_ended_during_the_opening(held, topic, monkeypatch):
    async def main():
        async with mledger.open_cluster(held.url, config=KEEP, session_timeout=SHORT_SESSION_S) as cluster:
            listing, go_on = asyncio.Event(), asyncio.Event()
            children = cluster.metadata.children

            async def held_up(path):
                listing.set()
                await go_on.wait()
                return await children(path)

            monkeypatch.setattr(cluster.metadata, "children", held_up)
            opening = asyncio.ensure_future(cluster.create_topic(topic))
            await listing.wait()  # its cursors, after it has become the owner
            path, session = owner_path(managed_ledger_of(topic)), cluster.metadata.session_id
            await held.lose_session(path)
            while cluster.metadata.session_id == session:
                await asyncio.sleep(0.05)
            go_on.set()
            opened = await opening
            async with held.direct() as store, asyncio.timeout(30):
                while (owner := await store.exists(path)) is None:
                    await asyncio.sleep(0.05)
                assert owner.ephemeral_owner == cluster.metadata.session_id
            await opened.append(payloads(3))
            assert opened.state is mledger.TopicState.OPEN

    run(main())


def test_an_owner_stops_if_another_created_its_node_meanwhile(held, topic):
    async def main():
        async with mledger.open_cluster(held.url, config=KEEP, session_timeout=SHORT_SESSION_S) as cluster:
            events = Events()
            opened = await cluster.create_topic(topic, events=events)
            path = owner_path(opened.name)
            async with held.direct() as store:
                fenced = asyncio.ensure_future(events.next(Fenced))
                async with store.watch(path) as changes:
                    losing = asyncio.ensure_future(held.lose_session(path, back=False))
                    await anext(changes)
                    await store.create(path, b"{}", ephemeral=True)
                    await losing
                    held.release()
                    assert "another owner has it" in (await fenced).reason
            assert opened.state is mledger.TopicState.FENCED

    run(main())


def test_a_topic_can_be_closed_while_its_owner_node_cannot_be_created_again(held, topic):
    """The session was renewed, and the store is down again."""

    async def main():
        async with mledger.open_cluster(held.url, config=KEEP, session_timeout=SHORT_SESSION_S) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.terminate()
            held.cut()
            opened.session_renewed()
            await opened.close()
            assert opened.state is mledger.TopicState.CLOSED
            held.release()

    run(main())


def test_a_topic_closed_while_the_store_was_away_can_be_opened_elsewhere(topic_url, topic, monkeypatch):
    """The process that closed it lives on, and so does its session."""

    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            get, node, away = cluster.metadata.get, owner_path(opened.name), [True]

            async def get_unless_away(path):
                if away and path == node:
                    raise StoreUnavailable("made to fail by the test", path)
                return await get(path)

            monkeypatch.setattr(cluster.metadata, "get", get_unless_away)
            await opened.close()
            away.clear()
            async with mledger.open_cluster(topic_url, config=KEEP, session_timeout=SHORT_SESSION_S) as other:
                assert (await other.open_topic(topic)).state is mledger.TopicState.OPEN

    run(main())
