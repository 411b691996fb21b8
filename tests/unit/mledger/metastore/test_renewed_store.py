"""The next session of a store, with a server that lags behind what the last one has shown."""

import asyncio
import uuid
from contextlib import asynccontextmanager

import pytest

from mledger.metastore import renewed_reader
from mledger.metastore.errors import StoreClosed, StoreUnavailable
from mledger.metastore.memory.store import MemoryStore
from mledger.metastore.renewed_store import RenewedStore
from mledger.metastore.split_store import SplitStore
from mledger.metastore.store import NodeChange, SessionState
from tests.support.aio import run

PATH = "/record"


class BehindStore(MemoryStore):
    """A session with a server that shows `node` until it is synced, which `failures` syncs are not."""

    def __init__(self, name, node, failures):
        super().__init__(name)
        self._node, self._failures = node, failures

    async def sync(self):
        if self._failures:
            self._failures.pop()
            raise StoreUnavailable("the server has no leader", PATH)
        self._node = None

    async def get(self, path):
        return self._node or await super().get(path)


def next_session(failures, test):
    """Run a test on a store whose session has ended: `test(store, opened)`, where `opened` has its next sessions."""

    async def main():
        name = uuid.uuid4().hex
        first, opened = MemoryStore(name), []
        await first.create(PATH, b"before")
        before = await first.get(PATH)

        async def reopen():
            opened.append(BehindStore(name, before, failures))
            return opened[-1]

        async with RenewedStore(first, reopen, 60.0) as store:
            await store.put(PATH, b"after", 0)
            first.expire()
            await test(store, opened)

    run(main())


def test_reads_in_the_next_session_show_nothing_older():
    async def test(store, opened):
        assert (await store.get(PATH)).data == b"after"
        assert len(opened) == 1

    next_session([], test)


def test_those_who_are_told_of_the_next_session_see_nothing_older():
    async def test(store, opened):
        found = asyncio.get_running_loop().create_future()

        def look():
            asyncio.ensure_future(store.get(PATH)).add_done_callback(lambda done: found.set_result(done.result()))

        store.on_renewed(look)
        assert (await store.exists(PATH)).version == 1
        assert (await found).data == b"after"

    next_session([], test)


def test_a_session_that_cannot_be_synced_is_closed_and_another_opened(monkeypatch):
    monkeypatch.setattr(renewed_reader, "REOPEN_FIRST_S", 0.0)

    async def test(store, opened):
        assert (await store.get(PATH)).data == b"after"
        assert [each.session_state for each in opened] == [SessionState.CLOSED, SessionState.CONNECTED]

    next_session([True], test)


class HeldStore(MemoryStore):
    """A session that answers no read and no write, until it is closed."""

    async def _until_closed(self):
        await self.wait_for_session(SessionState.CLOSED, 60.0)
        raise StoreClosed("closed")

    async def get(self, path):
        return await self._until_closed()

    async def put(self, path, data, version):
        return await self._until_closed()


def two_stores(topics, test):
    """Run a test on topics and ledgers in two stores: `test(store, ledgers)`, whose session is about to expire."""

    async def main():
        name = uuid.uuid4().hex
        ledgers = MemoryStore(f"{name}-ledgers")

        async def reopen():
            return SplitStore("two", MemoryStore(name), MemoryStore(f"{name}-ledgers"), "/ledgers")

        first = SplitStore("two", topics(name), ledgers, "/ledgers")
        async with RenewedStore(first, reopen, 60.0) as store:
            await store.create(PATH, b"before")
            await test(store, ledgers)
        with pytest.raises(StoreClosed):
            await store.get(PATH)

    run(main())


class RefusingStore(MemoryStore):
    """A session whose connection is lost: it refuses watches at once, until the loop has had a turn."""

    refused = 0
    back = False

    @asynccontextmanager
    async def watch(self, path, *, children=False):
        if not self.back:
            self.refused += 1
            assert self.refused < 100, "asked without end"
            asyncio.get_running_loop().call_soon(setattr, self, "back", True)
            raise StoreUnavailable("the connection was lost", path)
        async with super().watch(path, children=children) as changes:
            yield changes


def test_a_watch_that_is_refused_in_the_next_session_leaves_the_loop_to_others(monkeypatch):
    monkeypatch.setattr(renewed_reader, "WATCH_AGAIN_S", 0.0)

    async def main():
        name = uuid.uuid4().hex
        first = MemoryStore(name)

        async def reopen():
            return RefusingStore(name)

        async with RenewedStore(first, reopen, 60.0) as store, store.watch(PATH) as changes:
            first.expire()
            assert await anext(changes) is NodeChange.UNKNOWN

    run(main())


def test_a_watch_in_one_store_outlives_the_session_of_the_other():
    async def test(store, ledgers):
        async with store.watch(PATH) as changes:
            ledgers.expire()
            assert await anext(changes) is NodeChange.UNKNOWN
            await store.put(PATH, b"after", 0)
            assert await anext(changes) is NodeChange.CHANGED

    two_stores(MemoryStore, test)


def test_requests_to_one_store_when_the_session_of_the_other_ends_are_as_those_of_an_ended_session():
    async def test(store, ledgers):
        reading, writing = asyncio.ensure_future(store.get(PATH)), asyncio.ensure_future(store.put(PATH, b"after", 0))
        await asyncio.sleep(0)
        ledgers.expire()
        assert (await reading).data == b"before"
        with pytest.raises(StoreUnavailable, match="whether it was carried out is not known"):
            await writing

    two_stores(HeldStore, test)
