"""The next session of a store, with a server that lags behind what the last one has shown."""

import asyncio
import uuid

from mledger.metastore import renewed_store
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.memory.store import MemoryStore
from mledger.metastore.renewed_store import RenewedStore
from mledger.metastore.store import SessionState
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
    monkeypatch.setattr(renewed_store, "REOPEN_FIRST_S", 0.0)

    async def test(store, opened):
        assert (await store.get(PATH)).data == b"after"
        assert [each.session_state for each in opened] == [SessionState.CLOSED, SessionState.CONNECTED]

    next_session([True], test)
