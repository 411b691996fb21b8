"""Two owners of one topic: the later one has it, and the earlier one stops and changes nothing more (M7, M9)."""

import asyncio
import json
import socket

import pytest

import mledger
from mledger.ledgers import ownership
from mledger.ledgers.ownership import check_owner, find_owner
from mledger.metastore.records.paths import cursor_path, managed_ledger_path, owner_path
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.topics import KEEP, assert_nothing_orphaned, everything, fill, managed_ledger_of, payloads
from tests.support.zookeeper.server import SHORT_SESSION_S


async def versions(cluster, opened):
    paths = [managed_ledger_path(opened.name), cursor_path(opened.name, "sub"), cursor_path(opened.name, "quiet")]
    return [node.version for node in await cluster.metadata.get_many(paths)]


def test_an_earlier_owner_is_fenced_and_its_cursors_with_it(topic_url, topic):
    async def main():
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as one,
            mledger.open_cluster(topic_url, config=KEEP) as two,
        ):
            first = await one.create_topic(topic)
            positions = await fill(first, 6)
            cursor = await first.open_cursor("sub")
            quiet = await first.open_cursor("quiet")
            await cursor.acknowledge(positions[:2])

            second = await two.open_topic(topic, take_over=True)
            taken = await second.open_cursor("sub")
            assert (taken.mark_delete, taken.backlog) == (positions[1], 4)
            before = await versions(two, second)

            with pytest.raises(mledger.ManagedLedgerFenced):
                await first.append([b"late"])
            with pytest.raises(mledger.ManagedLedgerFenced):
                await first.append([b"later"])
            for moved in (cursor, quiet):
                with pytest.raises(mledger.ManagedLedgerFenced):
                    await moved.acknowledge(positions[:5])
            assert (cursor.mark_delete, cursor.status) == (positions[1], mledger.CursorStatus.FENCED)
            assert quiet.backlog == 6
            assert first.state is mledger.TopicState.FENCED
            await first.close()
            assert await versions(two, second) == before

            await second.append([b"on"])
            await taken.acknowledge([positions[2]])
            assert await everything(second) == [*payloads(6), b"on"]
            name = second.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_a_cursor_of_an_earlier_owner_does_not_move_even_if_nothing_else_told_it(topic_url, topic):
    async def main():
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as one,
            mledger.open_cluster(topic_url, config=KEEP) as two,
        ):
            first = await one.create_topic(topic)
            positions = await fill(first, 6)
            idle, active = await first.open_cursor("quiet"), await first.open_cursor("sub")
            await active.acknowledge(positions[:1])
            second = await two.open_topic(topic, take_over=True)
            await second.initialized()
            for cursor, durable in ((idle, 6), (active, 5)):
                with pytest.raises(mledger.ManagedLedgerFenced):
                    await cursor.acknowledge(positions[:3])
                assert cursor.backlog == durable
            assert (await second.open_cursor("quiet")).backlog == 6
            name = second.name
            await first.close()
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_a_takeover_during_writes_neither_loses_nor_repeats_an_entry(topic_url, topic):
    async def main():
        acknowledged = []
        async with mledger.open_cluster(topic_url, config=KEEP) as one:
            first = await one.create_topic(topic)

            async def write():
                number = 0
                while True:
                    await first.append(payloads(3, number))
                    acknowledged.extend(payloads(3, number))
                    number += 3

            writing = asyncio.ensure_future(write())
            for _ in range(3):
                await asyncio.sleep(0.05)
                async with mledger.open_cluster(topic_url, config=KEEP) as two:
                    second = await two.open_topic(topic, take_over=True)
                    with pytest.raises(mledger.ManagedLedgerFenced):
                        await writing
                    found = await everything(second)
                    assert found[: len(acknowledged)] == acknowledged
                    assert found == payloads(len(found))
                    acknowledged[:] = found
                await first.close()
                first = await one.open_topic(topic, take_over=True)
                base = len(acknowledged)

                async def write_on(opened=first, number=base):
                    while True:
                        await opened.append(payloads(3, number))
                        acknowledged.extend(payloads(3, number))
                        number += 3

                writing = asyncio.ensure_future(write_on())
            writing.cancel()
            await asyncio.wait([writing])
            name = first.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_of_two_that_open_at_once_one_owns_the_topic(topic_url, topic):
    async def main():
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as one,
            mledger.open_cluster(topic_url, config=KEEP) as two,
        ):
            await (await one.create_topic(topic)).close()
            results = await asyncio.gather(
                one.open_topic(topic, take_over=True), two.open_topic(topic, take_over=True), return_exceptions=True
            )
            opened = [each for each in results if isinstance(each, mledger.ManagedLedger)]
            refused = [each for each in results if not isinstance(each, mledger.ManagedLedger)]
            assert all(isinstance(each, mledger.ManagedLedgerFenced) for each in refused)
            outcomes = await asyncio.gather(*(each.append([b"x"]) for each in opened), return_exceptions=True)
            assert sum(not isinstance(each, Exception) for each in outcomes) == 1
            assert all(isinstance(each, tuple | mledger.ManagedLedgerFenced) for each in outcomes)

    run(main())


def test_a_live_owner_is_seen_and_a_closed_one_is_not(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as one:
            opened = await one.create_topic(topic)
            async with mledger.open_cluster(topic_url, config=KEEP, session_timeout=SHORT_SESSION_S) as two:
                with pytest.raises(mledger.OwnedElsewhere, match="take over"):
                    await two.open_topic(topic, take_over=False)
                assert (await two.inspector.topic(topic)).owner is not None
                assert opened.state is mledger.TopicState.OPEN
                await opened.close()
                again = await two.open_topic(topic, take_over=False)
                await again.close()

    run(main())


def test_a_pulsar_broker_counts_as_owner_seen_or_not(metadata_url):
    async def main():
        topic = "persistent://tenant/ns/topic"
        name = managed_ledger_of(topic)
        async with await open_store(metadata_url) as store:
            assert await find_owner(store, name) is None
            await store.create("/loadbalance/brokers/b:8080", b"{}", ephemeral=True, parents=True)
            with pytest.raises(mledger.OwnedElsewhere, match="cannot be seen"):
                await check_owner(store, name, session_timeout=0.1)
            await store.create("/namespace/tenant/ns/0x00000000_0xffffffff", b"{}", ephemeral=True, parents=True)
            with pytest.raises(mledger.OwnedElsewhere, match="serves its bundle"):
                await check_owner(store, name, session_timeout=0.1)
            await check_owner(store, name, take_over=True)
            await store.create(
                owner_path(name), json.dumps({"host": "h", "pid": 1}).encode(), ephemeral=True, parents=True
            )
            with pytest.raises(mledger.OwnedElsewhere, match="process 1 on h"):
                await check_owner(store, name, session_timeout=0.1)

    run(main())


@pytest.fixture
def looks(monkeypatch):
    """The checks for an owner, one per hundredth of a second."""
    looks, find = [], ownership.find_owner

    async def counted(*arguments, **options):
        looks.append(arguments)
        return await find(*arguments, **options)

    monkeypatch.setattr(ownership, "find_owner", counted)
    monkeypatch.setattr(ownership, "POLL_S", 0.01)
    return looks


async def serve_namespace(store, namespace, port):
    """Make a broker that accepts clients at `port` serve the namespace. Returns its node."""
    path = f"/namespace/{namespace}/0x00000000_0xffffffff"
    data = json.dumps({"nativeUrl": f"pulsar://127.0.0.1:{port}"}).encode()
    await store.create(path, data, ephemeral=True, parents=True)
    return path


def test_a_broker_that_accepts_no_clients_is_waited_for_as_long_as_its_session_may_last(metadata_url, looks):
    async def main():
        async with await open_store(metadata_url) as store:
            with socket.create_server(("127.0.0.1", 0)) as server:
                port = server.getsockname()[1]
            path = await serve_namespace(store, "dead/ns", port)
            name = managed_ledger_of("persistent://dead/ns/topic")
            checking = asyncio.ensure_future(check_owner(store, name, session_timeout=0.1))
            while len(looks) < 30 and not checking.done():
                await asyncio.sleep(0)
            await store.delete(path)
            await checking

    run(main())


def test_a_broker_that_accepts_clients_causes_an_immediate_refusal_with_its_address(metadata_url, looks):
    async def main():
        async with await open_store(metadata_url) as store:
            with socket.create_server(("127.0.0.1", 0)) as server:
                port = server.getsockname()[1]
                await serve_namespace(store, "alive/ns", port)
                name = managed_ledger_of("persistent://alive/ns/topic")
                with pytest.raises(mledger.OwnedElsewhere, match=f"the Pulsar broker pulsar://127.0.0.1:{port} serves"):
                    await check_owner(store, name)
        assert len(looks) == 1

    run(main())


def test_a_fenced_owner_removes_its_node_although_nobody_closes_its_topic(topic_url, topic):
    async def main():
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as cluster,
            mledger.open_cluster(topic_url, config=KEEP) as other,
        ):
            opened = await cluster.create_topic(topic)
            path = managed_ledger_path(opened.name)
            node = await other.metadata.get(path)
            await other.metadata.put(path, node.data, node.version)  # as a command that takes over does
            with pytest.raises(mledger.ManagedLedgerFenced):
                await opened.set_properties({"who": "me"})
            while await other.metadata.exists(owner_path(opened.name)) is not None:
                await asyncio.sleep(0)
            again = await other.open_topic(topic, take_over=False)
            await again.add(b"entry")
            await opened.close()
            assert await other.metadata.exists(owner_path(opened.name)) is not None

    run(main())
