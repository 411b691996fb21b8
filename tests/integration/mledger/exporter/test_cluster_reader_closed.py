"""Nodes that access control closes are passed over and counted; the rest of the cluster is read."""

import pytest
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from mledger.config import ManagedLedgerConfig
from mledger.exporter.cluster_reader import ClusterReader
from mledger.exporter.orphan_suspects import OrphanSuspects
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.cluster.underreplication import UnderreplicatedLedger, encode_underreplicated_ledger
from mledger.metastore.errors import MetadataAccessDenied
from mledger.metastore.records.codec import encode_managed_cursor_info, encode_managed_ledger_info
from mledger.metastore.records.paths import ledger_path, underreplicated_path
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo, ManagedLedgerInfo
from mledger.metastore.url import open_reader, open_store
from tests.integration.mledger.exporter.test_cluster_reader import metadata_of
from tests.support.aio import HANG_S, run

FOLDER = "/managed-ledgers/a/b/persistent"
INFO = encode_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(1, 5, 50, 1000), LedgerInfo(2))))
CURSOR = encode_managed_cursor_info(ManagedCursorInfo(mark_delete=Position(2, -1)))
CLOSED = [make_digest_acl("owner", "password", all=True)]


@pytest.fixture
def owner(shared_zookeeper, metadata_url):
    """A client that may close nodes and open them again."""
    chroot = metadata_url.removeprefix(shared_zookeeper.url)
    client = KazooClient(shared_zookeeper.connect_string + chroot, auth_data=[("digest", "owner:password")])
    client.start(timeout=HANG_S)
    yield client
    client.stop()
    client.close()


async def make(url):
    """Topics t0 to t9 with a cursor each, and another namespace."""
    async with await open_store(url) as store:
        await initialize(store)
        for topic in [f"{FOLDER}/t{number}" for number in range(10)] + ["/managed-ledgers/a/other/persistent/t"]:
            await store.create(topic, INFO, parents=True)
            await store.create(f"{topic}/sub", CURSOR)


def test_closed_topics_cursors_and_folders_are_counted_as_unreadable(metadata_url, owner, caplog):
    cluster = ClusterReader(ManagedLedgerConfig(), worst=5)

    async def main():
        await make(metadata_url)
        for path in (f"{FOLDER}/t1", f"{FOLDER}/t3", f"{FOLDER}/t5/sub", "/managed-ledgers/a/other/persistent"):
            owner.set_acls(path, CLOSED)
        async with await open_reader(metadata_url) as reader:
            for _ in range(2):
                figures = await cluster.read(reader)
                sums = figures.namespaces["a/b"]
                assert (sums.topics, sums.by_state["znode"].cursors, sums.untrimmed_ledgers) == (8, 7, 7)
                assert figures.namespaces.keys() == {"a/b"}
                assert +figures.unreadable == {"topic": 2, "cursor": 1, "folder": 1}
            for path in (f"{FOLDER}/t1", f"{FOLDER}/t5/sub", "/managed-ledgers/a/other/persistent"):
                owner.set_acls(path, OPEN_ACL_UNSAFE)
            figures = await cluster.read(reader)
            assert figures.namespaces["a/b"].topics == 9
            assert figures.namespaces["a/other"].topics == 1
            assert +figures.unreadable == {"topic": 1}

    run(main())
    (said,) = [record.getMessage() for record in caplog.records if "nodes_closed" in record.getMessage()]
    assert "count=4" in said


def test_the_ledgers_of_closed_topics_are_not_suspected(metadata_url, owner):
    async def main():
        await make(metadata_url)
        async with await open_store(metadata_url) as store:
            await store.create(ledger_path(1), metadata_of("a/b/persistent/t1"), parents=True)
            await store.create(ledger_path(9), metadata_of("a/b/persistent/t1"), parents=True)
            await store.create(ledger_path(10), metadata_of("a/b/persistent/t2"), parents=True)
            for path in (f"{FOLDER}/t1", "/managed-ledgers/a/other/persistent"):
                owner.set_acls(path, CLOSED)
            assert (await ClusterReader(ManagedLedgerConfig(), 5).read(store)).orphans == OrphanSuspects(1, 0, 0)
            owner.set_acls("/ledgers/00", CLOSED)
            figures = await ClusterReader(ManagedLedgerConfig(), 5).read(store)
            assert figures.orphans is None
            assert +figures.unreadable == {"topic": 1, "folder": 1, "ledger": 1}

    run(main())


def test_a_closed_mark_is_a_ledger_that_cannot_be_read(metadata_url, owner):
    async def main():
        await make(metadata_url)
        mark = encode_underreplicated_ledger(UnderreplicatedLedger(("c:1",), 5000))
        async with await open_store(metadata_url) as store:
            for ledger_id in (7, 8):
                await store.create(underreplicated_path(ledger_id), mark, parents=True)
            owner.set_acls(underreplicated_path(8), CLOSED)
            marks = (await ClusterReader(ManagedLedgerConfig(), 5).read(store)).marks
            assert (marks.ledgers, marks.unreadable, marks.missing) == (2, 1, {"c:1": 1})

    run(main())


@pytest.mark.parametrize("path", ["/ledgers/underreplication/ledgers", "/ledgers/available", "/managed-ledgers"])
def test_a_round_fails_if_figures_without_a_closed_folder_would_look_well(metadata_url, owner, path):
    async def main():
        await make(metadata_url)
        owner.ensure_path(path)
        owner.set_acls(path, CLOSED)
        async with await open_reader(metadata_url) as reader:
            with pytest.raises(MetadataAccessDenied) as caught:
                await ClusterReader(ManagedLedgerConfig(), 5).read(reader)
            assert caught.value.path == path

    run(main())
