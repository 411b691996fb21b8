"""Later rounds ask only for topics that changed, and find what a round over everything finds."""

import asyncio
import contextlib
import random

import pytest

from mledger.config import ManagedLedgerConfig
from mledger.exporter import cluster_reader
from mledger.exporter.cluster_reader import ClusterReader
from mledger.exporter.paced_reader import PacedReader
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.url import open_reader, open_store
from tests.support.aio import run
from tests.support.exporter.changing_cluster import ChangingCluster, comparable
from tests.support.metadata.held_answers import held_answers
from tests.support.zookeeper.old_server import ADD_WATCH, server_without_multiread
from tests.support.zookeeper.server import SHORT_SESSION_S

RATE = 1e9
NOW_MS = 5 * 3_600_000


@pytest.fixture(autouse=True)
def _one_time(monkeypatch):
    monkeypatch.setattr(cluster_reader, "wall_clock_ms", lambda: NOW_MS)


def everything():
    """A reader that has read nothing yet."""
    return ClusterReader(ManagedLedgerConfig(), worst=100_000)


class Compared:
    """A cluster that changes, later rounds of one reader, and rounds over everything, by another, to compare."""

    def __init__(self, store, seed):
        self.store, self.chance = store, random.Random(seed)
        self.cluster = ChangingCluster(store, self.chance)
        self._kept = everything()

    async def round(self, reader):
        """A later round; what it asked for. Fails if a round over everything finds something else."""
        paced = PacedReader(reader, RATE) if not isinstance(reader, PacedReader) else reader
        before = paced.requested
        found = comparable(await self._kept.read(paced))
        assert found == comparable(await everything().read(self.store))
        return paced.requested - before

    async def round_meanwhile(self, reader):
        """A later round while nodes change."""
        await asyncio.gather(self._kept.read(reader), self.cluster.change(10))


@contextlib.asynccontextmanager
async def compared(url, seed=1):
    async with await open_store(url) as store:
        await initialize(store)
        one = Compared(store, seed)
        await one.cluster.change(150)
        yield one


def test_a_later_round_asks_only_for_the_topics_that_changed(metadata_url):
    async def main():
        async with compared(metadata_url) as one, await open_reader(metadata_url) as reader:
            paced = PacedReader(reader, RATE)
            first = await one.round(paced)
            unchanged = await one.round(paced)
            assert await one.round(paced) == unchanged
            await one.cluster.change(1)
            changed = await one.round(paced)
            assert unchanged < first / 2
            assert unchanged < changed <= unchanged + 2 + 3

    run(main())


def test_later_rounds_find_what_a_round_over_everything_finds(metadata_url):
    async def main():
        async with compared(metadata_url, seed=2) as one, await open_reader(metadata_url) as reader:
            paced = PacedReader(reader, RATE)
            for _ in range(40):
                await one.cluster.change(one.chance.randrange(8))
                await one.round(paced)
                await one.round_meanwhile(paced)
                await one.round(paced)

    run(main())


def test_a_cut_connection_loses_no_change(metadata_url):
    async def main():
        with held_answers(metadata_url) as held:
            async with compared(metadata_url, seed=3) as one, await open_reader(held.url) as reader:
                paced = PacedReader(reader, RATE)
                for _ in range(8):
                    await one.round(paced)
                    rounds = asyncio.ensure_future(one.round_meanwhile(paced))
                    held.cut()
                    await one.cluster.change(5)
                    held.release()
                    await rounds
                    await one.round(paced)
                    await one.cluster.change(5)
                    await one.round(paced)

    run(main())


def test_an_expired_session_loses_no_change(metadata_url):
    async def main():
        with held_answers(metadata_url) as held:
            async with compared(metadata_url, seed=4) as one:
                async with await open_store(held.url, session_timeout=SHORT_SESSION_S) as ending:
                    await ending.create("/ending", ephemeral=True)
                    await one.round(ending)
                    losing = asyncio.ensure_future(held.lose_session("/ending"))
                    await one.cluster.change(20)
                    await losing
                    with pytest.raises(StoreUnavailable):
                        await one.round(ending)
                async with await open_reader(held.url) as reader:
                    await one.round(reader)
                    await one.cluster.change(20)
                    await one.round(reader)

    run(main())


def test_a_restarted_server_loses_no_change(zookeeper_server):
    async def main():
        async with compared(zookeeper_server.url, seed=5) as one, await open_reader(zookeeper_server.url) as reader:
            paced = PacedReader(reader, RATE)
            first = await one.round(paced)
            await asyncio.to_thread(zookeeper_server.kill)
            await asyncio.to_thread(zookeeper_server.restart)
            await one.store.sync()
            await one.cluster.change(20)
            assert await one.round(paced) > first / 2
            await one.cluster.change(20)
            assert await one.round(paced) < first

    run(main())


def test_a_server_that_has_no_such_watch_is_asked_for_everything(shared_zookeeper, metadata_url):
    chroot = metadata_url.removeprefix(shared_zookeeper.url)

    async def main():
        async with (
            server_without_multiread(shared_zookeeper.host, shared_zookeeper.port) as (address, operations),
            compared(metadata_url, seed=6) as one,
            await open_reader(f"zk://{address}{chroot}") as reader,
        ):
            paced = PacedReader(reader, RATE)
            first = await one.round(paced)
            assert await one.round(paced) >= first - 1
            await one.cluster.change(20)
            await one.round(paced)
            assert operations.count(ADD_WATCH) == 1

    run(main())
