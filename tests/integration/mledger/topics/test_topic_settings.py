"""Settings of a topic that no other test shows: the effect of each (M6)."""

from dataclasses import replace

import pytest

import mledger
from mledger.bookie.client.client import BookKeeper
from mledger.bookie.client.config import ClientConfig
from mledger.ledgers.ledger_factory import LedgerFactory
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.processes import BookieProcesses, initialize_cluster
from tests.support.topics import KEEP, everything, fill, payloads


@pytest.fixture
def own_cluster(zookeeper_server, tmp_path):
    """A metadata store that can be frozen, and three bookies."""
    initialize_cluster(zookeeper_server.url)
    processes = BookieProcesses(zookeeper_server.url, tmp_path / "bookies")
    processes.start(3)
    yield zookeeper_server, processes
    processes.close()


def test_a_metadata_write_takes_no_longer_than_its_setting_and_the_next_one_settles_it(own_cluster):
    zookeeper, bookies = own_cluster
    config = replace(KEEP, metadata_operations_timeout_s=5)

    async def main():
        async with mledger.open_cluster(bookies.metadata_url, config=config, session_timeout=60) as cluster:
            opened = await cluster.create_topic("persistent://tests/ns/timed")
            zookeeper.freeze()
            with pytest.raises(StoreUnavailable, match=r"within 5 s .managedLedgerMetadataOperationsTimeoutSeconds"):
                await opened.set_properties({"a": "1"})
            zookeeper.thaw()
            await opened.set_properties({"a": "2"})
            assert opened.properties == {"a": "2"}

    run(main())


def test_creating_a_ledger_takes_no_longer_than_its_setting(own_cluster):
    zookeeper, bookies = own_cluster
    config = replace(KEEP, metadata_operations_timeout_s=5)

    async def main():
        async with await open_store(bookies.metadata_url, session_timeout=60) as store:
            bookkeeper = BookKeeper(store, ClientConfig())
            factory = LedgerFactory(bookkeeper, store, "tests/ns/persistent/timed", config)
            zookeeper.freeze()
            with pytest.raises(StoreUnavailable, match="no ledger could be created within 5 s"):
                await factory.create_data_ledger(None)
            zookeeper.thaw()
            await bookkeeper.close()

    run(main())


def test_after_an_add_times_out_its_ledger_is_settled_and_another_written(cluster_url, bookies):
    bookies.start(5)
    config = replace(KEEP, ack_quorum_size=3, add_entry_timeout_s=5, max_entries_per_ledger=1000)
    client = ClientConfig(add_timeout_s=15.0)

    async def main():
        async with mledger.open_cluster(cluster_url, config=config, client=client) as cluster:
            opened = await cluster.create_topic("persistent://tests/ns/slow")
            before = await fill(opened, 3)
            async with await open_store(cluster_url) as store:
                metadata = await BookKeeper(store, client).metadata(before[0].ledger_id)
            frozen = next(each for each in bookies if each.bookie_id == metadata.segments[0].bookies[0])
            frozen.freeze()
            appended = [opened.append(payloads(3, 3 + 3 * number)) for number in range(3)]
            for batch in appended:
                await batch
            (after,) = await opened.append(payloads(1, 12))
            assert after.ledger_id > before[0].ledger_id
            assert await everything(opened) == payloads(13)
            frozen.thaw()

    run(main())
