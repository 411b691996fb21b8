"""A store that outlives its session: reads continue, writes of unknown outcome are errors, watches begin again (M7)."""

import asyncio
import contextlib
import resource

import pytest

from mledger.metastore.errors import StoreClosed, StoreUnavailable
from mledger.metastore.renewed_store import RenewedStore
from mledger.metastore.store import NodeChange, SessionState
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.metadata.held_answers import held_answers
from tests.support.zookeeper.server import SHORT_SESSION_S


@pytest.fixture
def held(metadata_url):
    """A link to a ZooKeeper that tests can cut."""
    with held_answers(metadata_url) as held:
        yield held


async def renewed(held):
    """A store with short sessions."""

    async def reopen():
        return await open_store(held.url, session_timeout=SHORT_SESSION_S)

    return RenewedStore(await reopen(), reopen, 60.0)


def test_reads_wait_for_the_next_session_and_holders_of_ephemeral_nodes_are_notified(held):
    async def main():
        async with await renewed(held) as store:
            told = asyncio.Event()
            store.on_renewed(told.set)
            await store.create("/here", b"1")
            await store.create("/mine", ephemeral=True)
            first = store.session_id
            losing = asyncio.ensure_future(held.lose_session("/mine"))
            await store.wait_for_session(SessionState.SUSPENDED, 60.0)
            reading = asyncio.ensure_future(store.get("/here"))
            await losing
            assert (await reading).data == b"1"
            await told.wait()
            assert store.session_id != first
            assert await store.exists("/mine") is None
            assert await store.put("/here", b"2", 0) == 1

    run(main())


@contextlib.contextmanager
def no_more_files():
    """Let this process open no more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_session_for_which_the_system_has_no_room_is_opened_later(held):
    async def main():
        opened = []

        async def reopen():
            opened.append(held.url)
            with no_more_files() if len(opened) == 2 else contextlib.nullcontext():
                return await open_store(held.url, session_timeout=SHORT_SESSION_S)

        async with RenewedStore(await reopen(), reopen, 60.0) as store:
            await store.create("/mine", ephemeral=True)
            await held.lose_session("/mine")
            assert await store.exists("/mine") is None
            assert len(opened) == 3

    run(main())


def test_a_write_in_progress_when_the_session_ends_has_an_unknown_outcome(held):
    async def main():
        async with await renewed(held) as store:
            await store.create("/mine", ephemeral=True)
            losing = asyncio.ensure_future(held.lose_session("/mine"))
            await store.wait_for_session(SessionState.SUSPENDED, 60.0)
            with pytest.raises(StoreUnavailable):
                await store.create("/late")
            await losing
            await store.wait_for_session(SessionState.CONNECTED, 60.0)

    run(main())


def test_a_watch_continues_in_the_next_session(held):
    async def main():
        async with await renewed(held) as store, held.direct() as direct:
            await store.create("/mine", ephemeral=True)
            await store.create("/here")
            async with store.watch("/here") as changes:
                await held.lose_session("/mine")
                while (
                    await anext(changes) is not NodeChange.UNKNOWN or store.session_state is not SessionState.CONNECTED
                ):
                    continue
                await direct.put("/here", b"1", 0)
                while await anext(changes) is not NodeChange.CHANGED:
                    continue

    run(main())


def test_after_a_close_no_session_is_opened(held):
    async def main():
        store = await renewed(held)
        await store.close()
        assert store.session_state is SessionState.CLOSED
        with pytest.raises(StoreClosed):
            await store.get("/here")

    run(main())
