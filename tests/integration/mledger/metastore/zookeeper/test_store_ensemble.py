"""Clients of three ZooKeeper servers, one of which is lost or lags."""

import asyncio

import pytest

from mledger.metastore.errors import BadVersion, StoreUnavailable
from mledger.metastore.store import SessionState
from mledger.metastore.url import open_reader, open_renewed_reader, open_store, open_synced_reader
from tests.support.aio import HANG_S, run
from tests.support.metadata.stores import impatient
from tests.support.zookeeper.ensemble import ZooKeeperEnsemble


def test_a_session_and_its_nodes_outlive_the_leader(zookeeper_ensemble):
    async def main():
        url = f"{zookeeper_ensemble.url}/cluster"
        async with await open_store(url, create_chroot=True, timeout=HANG_S) as store:
            assert store.url == url
            await store.create("/data", b"0")
            await store.create("/mine", ephemeral=True)
            zookeeper_ensemble.leader.kill()
            while True:  # reads are retried automatically; a write reports that it was lost
                await store.wait_for_session(SessionState.CONNECTED, timeout=HANG_S)
                node = await store.get("/data")
                try:
                    await store.put("/data", b"1", node.version)
                    break
                except StoreUnavailable:
                    continue
                except BadVersion:
                    break  # the lost one was carried out
            assert (await store.get("/data")).data == b"1"
            assert (await store.get("/mine")).stat.ephemeral_owner == store.session_id
            assert len([server for server in zookeeper_ensemble.servers if server.running]) == 2

    run(main())


def test_a_client_moves_on_when_its_server_freezes(zookeeper_ensemble):
    async def main():
        async with await open_store(zookeeper_ensemble.url, session_timeout=12, timeout=HANG_S) as store:
            await store.create("/mine", b"0", ephemeral=True)
            for server in zookeeper_ensemble.servers:
                server.freeze()  # one after the other: whichever it is, two continue
                assert (await store.get("/mine")).stat.ephemeral_owner == store.session_id
                await asyncio.to_thread(server.thaw)
                await store.wait_for_session(SessionState.CONNECTED, timeout=HANG_S)

    run(main())


def test_a_lagging_server_does_not_answer_a_sync(patient_ensemble):
    async def main():
        url = patient_ensemble.servers[0].url
        async with await open_reader(url, session_timeout=60, timeout=HANG_S) as reader:
            with patient_ensemble.lagging() as (_, others):
                async with await open_store(others, timeout=HANG_S) as writer:
                    await writer.create("/new", b"0")
                assert await reader.exists("/new") is None
                with impatient(reader), pytest.raises(StoreUnavailable):
                    await reader.sync()
            await reader.sync()
            assert (await reader.get("/new")).data == b"0"

    run(main())


@pytest.fixture
def local_sessions(tmp_path):
    """Servers that begin sessions by themselves, of which one may lag."""
    ensemble = ZooKeeperEnsemble.start(tmp_path, sync_limit=1200, with_lines=True, local_sessions=True)
    yield ensemble
    ensemble.close()


def test_what_only_looks_never_begins_with_an_older_state(local_sessions):
    async def main():
        with local_sessions.lagging() as (url, others):
            async with await open_store(others, timeout=HANG_S) as writer:
                await writer.create("/new", b"0")
            async with await open_reader(url, timeout=HANG_S) as reader:
                assert await reader.exists("/new") is None
            for opened in (open_synced_reader, open_renewed_reader):
                with pytest.raises(StoreUnavailable, match="no answer"):
                    await opened(url, timeout=2.0)
        for opened in (open_synced_reader, open_renewed_reader):
            async with await opened(url, timeout=HANG_S) as reader:
                assert await reader.exists("/new") is not None

    run(main())
