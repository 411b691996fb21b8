"""A topic's record stays compressed as Pulsar wrote it, and one that fits no request leaves nothing behind."""

import pytest

import mledger
from mledger.ledgers.orphans.pending_records import read_records
from mledger.metastore.errors import NodeTooLarge
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.records.paths import managed_ledger_path
from mledger.metastore.records.values import ManagedLedgerInfo
from mledger.metastore.store import MAX_REQUEST_BYTES
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.topics import CONFIG, fill, ledgers_naming, managed_ledger_of

PROPERTIES = (("filler", "x" * (MAX_REQUEST_BYTES + 1_000)),)
"""More than fits a request, but very little when compressed."""


async def put_largest(store, path):
    """Write a record that just fits a request."""
    for spare in range(50, 500, 5):
        info = ManagedLedgerInfo(properties=(("filler", "x" * (MAX_REQUEST_BYTES - spare)),))
        try:
            return await store.create(path, encode_managed_ledger_info(info), parents=True)
        except NodeTooLarge:
            continue
    raise AssertionError("no record fits")


@pytest.mark.parametrize("compression", ["LZ4", "ZLIB", "ZSTD", "SNAPPY"])
def test_opening_and_appending_keep_a_record_s_compression(topic_url, topic, compression):
    async def main():
        path = managed_ledger_path(managed_ledger_of(topic))
        data = encode_managed_ledger_info(ManagedLedgerInfo(properties=PROPERTIES), compression=compression)
        async with await open_store(topic_url) as store, mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            await store.create(path, data, parents=True)
            opened = await cluster.open_topic(topic, trim=False)
            await fill(opened, 25)
            found = decode_managed_ledger_info((await store.get(path)).data, path)
            assert found.compression == compression
            assert len(found.value.ledgers) == 3

    run(main())


def test_a_record_that_fits_no_request_leaves_no_ledger_and_no_pending_record(topic_url, topic):
    async def main():
        name = managed_ledger_of(topic)
        async with await open_store(topic_url) as store, mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            await put_largest(store, managed_ledger_path(name))
            for _ in range(2):
                with pytest.raises(NodeTooLarge):
                    await cluster.open_topic(topic)
            assert await ledgers_naming(topic_url, name) == set()
            assert [record for record in await read_records(store) if record.managed_ledger == name] == []

    run(main())
