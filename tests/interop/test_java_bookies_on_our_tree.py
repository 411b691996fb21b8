"""Java's client and bookies on a ZooKeeper tree that we initialised: the basis of the other tests here."""

import pytest

from mledger.metastore.cluster.bookies import list_bookies, read_cookie
from mledger.metastore.cluster.layout import instance_id
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.records.ledger_metadata import DigestType, LedgerState
from mledger.metastore.url import open_reader
from tests.support.aio import run

pytestmark = pytest.mark.interop


def test_we_see_java_s_bookies_and_their_cookies(java_bookies):
    async def look():
        async with await open_reader(java_bookies.tree.url) as reader:
            found = await list_bookies(reader)
            cookies = [await read_cookie(reader, bookie.bookie_id) for bookie in found]
            return found, cookies, await instance_id(reader)

    found, cookies, instance = run(look())
    assert [bookie.bookie_id for bookie in found] == sorted(java_bookies.ids)
    assert [f"{bookie.host}:{bookie.port}" for bookie in found] == sorted(java_bookies.ids)
    for cookie, _ in cookies:
        assert cookie.bookie_id in java_bookies.ids
        assert cookie.instance_id == instance


def test_we_read_the_metadata_of_a_ledger_that_java_wrote(java_bookies, java_on_java):
    ledger = java_on_java.call(
        "ledger.create",
        handle="writer",
        ensemble=3,
        write_quorum=3,
        ack_quorum=2,
        digest="CRC32C",
        password="secret",
        custom={"application": "pulsar"},
    )["ledger"]
    java_on_java.call("ledger.append", handle="writer", entries=[b"twelve bytes".hex()] * 10)
    java_on_java.call("ledger.close", handle="writer")

    async def look():
        async with await open_reader(java_bookies.tree.url) as reader:
            return await LedgerStoreReader(reader).read(ledger)

    metadata, version = run(look())
    assert version == 1
    assert metadata.state is LedgerState.CLOSED
    assert (metadata.last_entry, metadata.length) == (9, 120)
    assert (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum) == (3, 3, 2)
    assert (metadata.digest_type, metadata.password) == (DigestType.CRC32C, b"secret")
    assert metadata.custom_metadata == (("application", b"pulsar"),)
    assert set(metadata.ensemble) <= set(java_bookies.ids)
