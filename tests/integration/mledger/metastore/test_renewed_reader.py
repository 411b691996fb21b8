"""A reader that outlives its session: what only looks goes on after an outage longer than the session."""

import pytest

import mledger
from mledger.admin.inspect import Inspector
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.cli.shared.read_only import read_only_cluster
from mledger.cli.topics.messages.follower import Follower
from mledger.metastore.errors import StoreClosed
from mledger.metastore.renewed_reader import RenewedReader
from mledger.metastore.store import NodeChange
from mledger.metastore.url import open_renewed_reader, open_store
from tests.support.aio import run
from tests.support.metadata.held_answers import held_answers
from tests.support.topics import KEEP, fill, payloads
from tests.support.zookeeper.server import SHORT_SESSION_S

LONGER_S = 2 * SHORT_SESSION_S


async def lose_session(held):
    """Cut the link until every session of at most `SHORT_SESSION_S` that goes through it has expired."""
    async with await open_store(held.url, session_timeout=LONGER_S) as longer:
        await longer.create("/longer", ephemeral=True)
        await held.lose_session("/longer")


async def opened(held):
    """A reader with short sessions."""
    return await open_renewed_reader(held.url, session_timeout=SHORT_SESSION_S, timeout=60.0)


def test_a_reader_reads_and_watches_on_in_a_new_session(metadata_url):
    async def main():
        with held_answers(metadata_url) as held:
            async with await opened(held) as reader, held.direct() as store:
                await store.create("/here", b"1")
                assert (await reader.get("/here")).data == b"1"
                async with reader.watch("/here") as changes:
                    await lose_session(held)
                    await store.put("/here", b"2", 0)
                    assert await anext(changes) is NodeChange.UNKNOWN
                    await store.put("/here", b"3", 1)
                    assert await anext(changes) is NodeChange.CHANGED
                assert (await reader.get("/here")).data == b"3"
            with pytest.raises(StoreClosed):
                await reader.get("/here")

    run(main())


def test_a_follower_shows_what_comes_after_its_session_has_ended(topic_url, topic):
    async def main():
        with held_answers(topic_url) as held:
            async with mledger.open_cluster(topic_url, config=KEEP) as cluster, await opened(held) as reader:
                written = await cluster.create_topic(topic)
                await fill(written, 1)
                bookies = BookKeeperReader(reader)
                following = Follower(Inspector(reader, bookies), topic, lambda _: None)
                batches = following.follow(await following.end())
                assert await anext(batches) == []
                await lose_session(held)
                await fill(written, 1, 1)
                while not (batch := await anext(batches)):
                    pass
                assert [entry.payload for entry in batch] == payloads(1, 1)
                await batches.aclose()
                await bookies.close()

    run(main())


def test_commands_that_only_look_and_inspectors_outlive_their_sessions(topic_url):
    async def main():
        async with read_only_cluster(topic_url) as cluster:
            return cluster.metadata

    assert isinstance(run(main()), RenewedReader)
    with mledger.open_inspector(topic_url) as inspector:
        assert isinstance(inspector._store, RenewedReader)
