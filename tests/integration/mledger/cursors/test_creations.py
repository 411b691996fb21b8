"""A cursor under creation holds its ledgers, whatever happens to the answer to its creation (R1, R10, M7)."""

import asyncio
from dataclasses import replace

import pytest

import mledger
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.paths import cursor_path, managed_ledger_path
from mledger.metastore.store import Create, Put
from tests.support.aio import run
from tests.support.metadata.held_answers import held_answers
from tests.support.topics import CONFIG, KEEP, assert_nothing_orphaned, fill, recount


@pytest.fixture
def held(topic_url):
    """A link to the cluster's ZooKeeper that can hold answers back."""
    with held_answers(topic_url) as held:
        yield held


class Gate:
    """Delays writes of one kind to the metadata store until they may continue, or its context ends."""

    def __init__(self, store, monkeypatch, kind, path):
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        multi = store.multi

        async def gated(operations):
            if any(isinstance(operation, kind) and operation.path == path for operation in operations):
                self.reached.set()
                await self.go_on.wait()
            return await multi(operations)

        monkeypatch.setattr(store, "multi", gated)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.go_on.set()


async def consumed_but_kept(cluster, topic, **options):
    """A topic of 35 entries in four ledgers, all consumed by its one cursor, with the due trim delayed."""
    opened = await cluster.create_topic(topic, **options)
    cursor = await opened.open_cursor("consumer")
    await opened.initialized()
    await opened.trim_lock.acquire()
    positions = await fill(opened, 35)
    await cursor.clear_backlog()
    return opened, positions


def test_ledgers_stay_under_a_cursor_that_is_being_created(topic_url, topic, monkeypatch):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened, positions = await consumed_but_kept(cluster, topic)
            with Gate(cluster.metadata, monkeypatch, Create, cursor_path(opened.name, "new")) as gate:
                creating = asyncio.ensure_future(opened.open_cursor("new", initial="earliest"))
                await gate.reached.wait()
                opened.trim_lock.release()
                assert (await opened.trim()).deletions == ()
                assert opened.plan_trim().deletions == ()
            created = await creating
            assert created.backlog == await recount(opened, created) == 35
            await opened.trim()
            assert [entry.position for entry in await created.read(100)] == positions

    run(main())


def test_a_cursor_begins_after_the_ledgers_that_are_being_trimmed(topic_url, topic, monkeypatch):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened, positions = await consumed_but_kept(cluster, topic)
            with Gate(cluster.metadata, monkeypatch, Put, managed_ledger_path(opened.name)) as gate:
                opened.trim_lock.release()
                trimming = asyncio.ensure_future(opened.trim())
                await gate.reached.wait()
                created = await opened.open_cursor("new", initial="earliest")  # not delayed by the trim
                assert created.mark_delete == (positions[30].ledger_id, -1)
            await trimming
            assert created.backlog == await recount(opened, created) == 5
            assert [entry.position for entry in await created.read(100)] == positions[30:]

    run(main())


def test_a_cursor_begins_after_the_ledgers_of_a_trim_that_first_looks_for_another_owner(topic_url, topic, monkeypatch):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened, positions = await consumed_but_kept(cluster, topic)
            looking, go_on = asyncio.Event(), asyncio.Event()
            exists, path = cluster.metadata.exists, managed_ledger_path(opened.name)

            async def held_up(at):
                if at == path and opened.trim_lock.locked():
                    looking.set()
                    await go_on.wait()
                return await exists(at)

            monkeypatch.setattr(cluster.metadata, "exists", held_up)
            opened.trim_lock.release()
            trimming = asyncio.ensure_future(opened.trim())
            await looking.wait()
            creating = asyncio.ensure_future(opened.open_cursor("new", initial="earliest"))
            while "new" not in opened.new_cursors:  # its place is not decided yet
                await asyncio.sleep(0)
            go_on.set()
            created = await creating
            await trimming
            assert created.mark_delete == (positions[30].ledger_id, -1)
            assert [entry.position for entry in await created.read(100)] == positions[30:]

    run(main())


@pytest.mark.parametrize("wanted_again", [True, False])
def test_a_cursor_whose_creation_was_not_answered_is_opened(held, topic, wanted_again):
    async def main():
        config = replace(CONFIG, metadata_operations_timeout_s=1)
        async with mledger.open_cluster(held.url, config=config, session_timeout=60) as cluster:
            opened, positions = await consumed_but_kept(cluster, topic, on_step=held.on_step)
            async with held.direct() as store, store.watch(cursor_path(opened.name, "new")) as changes:
                held.hold("create cursor")
                creating = asyncio.ensure_future(opened.open_cursor("new", initial="earliest"))
                await anext(changes)  # carried out
                with pytest.raises(StoreUnavailable):
                    await creating
            opened.trim_lock.release()
            try:
                assert opened.plan_trim().deletions == ()
            finally:
                held.release()
            if wanted_again:
                created = await opened.open_cursor("new", initial="latest")
            else:
                while "new" not in opened.open_cursors:
                    await asyncio.sleep(0.05)
                created = opened.open_cursors["new"]
            assert (await opened.trim()).deletions == ()
            assert opened.state is mledger.TopicState.OPEN
            assert created.backlog == 35
            await created.acknowledge(positions[:12])
            assert created.durable_mark_delete == positions[11]
            name = opened.name
        await assert_nothing_orphaned(held.direct_url, name)

    run(main())


def test_a_creation_that_was_never_carried_out_holds_nothing_once_that_is_known(topic_url, topic, monkeypatch):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened, positions = await consumed_but_kept(cluster, topic)
            multi, path = cluster.metadata.multi, cursor_path(opened.name, "new")

            async def unsent(operations):
                if any(isinstance(operation, Create) and operation.path == path for operation in operations):
                    raise StoreUnavailable("no server could be reached", path)
                return await multi(operations)

            monkeypatch.setattr(cluster.metadata, "multi", unsent)
            with pytest.raises(StoreUnavailable):
                await opened.open_cursor("new", initial="earliest")
            opened.trim_lock.release()
            while opened.new_cursors:
                assert opened.plan_trim().deletions == ()
                await asyncio.sleep(0.05)
            monkeypatch.setattr(cluster.metadata, "multi", multi)
            await opened.trim()
            created = await opened.open_cursor("new", initial="earliest")
            assert created.mark_delete == (positions[30].ledger_id, -1)

    run(main())


def test_another_owner_s_record_fences_a_caller_that_asks_for_the_outcome_of_a_creation(topic_url, topic, monkeypatch):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            path, multi = cursor_path(opened.name, "new"), cluster.metadata.multi

            async def unsent(operations):
                if any(isinstance(operation, Create) and operation.path == path for operation in operations):
                    raise StoreUnavailable("no server could be reached", path)
                return await multi(operations)

            monkeypatch.setattr(cluster.metadata, "multi", unsent)
            with pytest.raises(StoreUnavailable):
                await opened.open_cursor("new")
            await cluster.metadata.create(path, b"another owner's")
            with pytest.raises(mledger.ManagedLedgerFenced, match="another owner"):
                await opened.open_cursor("new")

    run(main())
