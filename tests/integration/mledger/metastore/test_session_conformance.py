"""What happens to a session, on every server, when its client, its server or the connection goes away."""

import asyncio
import os
import signal

import pytest

from mledger.metastore.errors import StoreClosed, StoreUnavailable
from mledger.metastore.store import NodeChange, SessionState
from mledger.metastore.url import open_store
from tests.support.aio import HANG_S, run
from tests.support.metadata.client_process import client_process
from tests.support.metadata.stores import impatient
from tests.support.zookeeper.server import SHORT_SESSION_S


def test_a_client_frozen_past_its_session_loses_its_ephemeral_nodes_and_learns_of_it(own_server):
    async def main():
        async with (
            await open_store(own_server.url) as store,
            store.watch("/mine") as changes,
            client_process(own_server.url, SHORT_SESSION_S) as client,
        ):
            assert await anext(changes) is NodeChange.CREATED
            os.kill(client.pid, signal.SIGSTOP)
            assert await anext(changes) is NodeChange.DELETED
            os.kill(client.pid, signal.SIGCONT)
            said, _ = await client.communicate()
            expired = ["expired", "watch SessionExpired", "get SessionExpired", "create SessionExpired"]
            assert said.decode().splitlines() == expired
            assert client.returncode == 0
            assert not {"mine", "late"} & set(await store.children("/"))

    run(main())


def test_a_session_outlives_kill_and_restart_of_the_server(own_server):
    async def main():
        async with await open_store(own_server.url) as store, store.watch("/data") as changes:
            await store.create("/data", b"kept")
            assert await anext(changes) is NodeChange.CREATED
            await store.create("/mine", ephemeral=True)
            session = store.session_id
            own_server.kill()
            await store.wait_for_session(SessionState.SUSPENDED, timeout=HANG_S)
            await asyncio.to_thread(own_server.restart)
            await store.wait_for_session(SessionState.CONNECTED, timeout=HANG_S)
            assert await anext(changes) is NodeChange.UNKNOWN
            assert (await store.get("/data")).data == b"kept"
            assert (await store.get("/mine")).stat.ephemeral_owner == session == store.session_id
            await store.put("/data", b"changed", 0)
            assert await anext(changes) is NodeChange.CHANGED
            async with await open_store(own_server.url) as other:
                assert other.session_id != session

    run(main())


def test_a_read_issued_while_the_server_is_down_succeeds_when_it_is_back(own_server):
    async def main():
        async with await open_store(own_server.url, timeout=HANG_S) as store:
            await store.create("/data", b"kept")
            own_server.kill()
            reads = [asyncio.ensure_future(read) for read in (store.get("/data"), store.children("/"))]
            await store.wait_for_session(SessionState.SUSPENDED, timeout=HANG_S)
            many = asyncio.ensure_future(store.get_many(["/data"] * 3))
            await asyncio.to_thread(own_server.restart)
            node, names = await asyncio.gather(*reads)
            assert (node.data, set(names) - {"zookeeper"}) == (b"kept", {"data"})
            assert [node.data for node in await many] == [b"kept"] * 3

    run(main())


def test_operations_without_a_server_time_out_and_name_it(own_server):
    async def main():
        async with await open_store(own_server.url) as store:
            await store.create("/data")
            own_server.kill()
            await store.wait_for_session(SessionState.SUSPENDED, timeout=HANG_S)
            with impatient(store):
                for attempt in (store.get("/data"), store.get_many(["/data"]), store.put("/data", b"", 0)):
                    with pytest.raises(StoreUnavailable, match=own_server.place):
                        await attempt
                with pytest.raises(StoreUnavailable):
                    async with store.watch("/data"):
                        pass

    run(main())


def test_a_write_that_timed_out_before_it_was_sent_is_not_carried_out_later(own_server):
    async def main():
        async with await open_store(own_server.url) as store:
            await store.create("/data", b"kept")
            own_server.kill()
            await store.wait_for_session(SessionState.SUSPENDED, timeout=HANG_S)
            for late in (store.put("/data", b"late", 0), store.create("/late")):
                with impatient(store), pytest.raises(StoreUnavailable):
                    await late
            await asyncio.to_thread(own_server.restart)
            await store.wait_for_session(SessionState.CONNECTED, timeout=HANG_S)
            assert (await store.get("/data")).version == 0
            assert await store.exists("/late") is None

    run(main())


def test_a_write_to_a_frozen_server_is_reported_unknown_and_can_be_read_back(own_server):
    async def main():
        async with await open_store(own_server.url) as store:
            await store.create("/data", b"0")
            own_server.freeze()
            with impatient(store), pytest.raises(StoreUnavailable):
                await store.put("/data", b"1", 0)
            own_server.thaw()
            async with store.watch("/data") as changes:
                while (await store.get("/data")).data != b"1":
                    await anext(changes)

    run(main())


def test_closing_ends_even_if_the_server_does_not_answer(own_server):
    async def main():
        store = await open_store(own_server.url)
        own_server.freeze()
        reading = asyncio.ensure_future(store.get("/"))
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(StoreClosed):
            await reading
        own_server.thaw()

    run(main())


def test_a_frozen_server_counts_as_missing(own_server):
    own_server.freeze()

    async def main():
        with pytest.raises(StoreUnavailable, match=own_server.nobody):
            await open_store(own_server.url, timeout=0.3)

    run(main())
