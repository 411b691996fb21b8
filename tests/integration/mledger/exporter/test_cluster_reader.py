"""What a round finds in a real ZooKeeper: topics that the product made, and nodes as BookKeeper writes them."""

import mledger
from mledger.config import ManagedLedgerConfig
from mledger.exporter.cluster_reader import ClusterReader
from mledger.exporter.orphan_suspects import YOUNG_MS, OrphanSuspects
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.cluster.underreplication import UnderreplicatedLedger, encode_underreplicated_ledger
from mledger.metastore.errors import NodeNotFound
from mledger.metastore.records.codec import encode_managed_cursor_info, encode_managed_ledger_info
from mledger.metastore.records.ledger_codec import encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment
from mledger.metastore.records.paths import ledger_path, underreplicated_path
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo, ManagedLedgerInfo
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.metastore.url import open_reader, open_store
from tests.support.aio import run
from tests.support.topics import KEEP, fill

READER = ClusterReader(ManagedLedgerConfig(), worst=5)
ALL = ClusterReader(ManagedLedgerConfig(), worst=100_000)
"""Where the topics of other tests are in the same cluster."""
TOPIC = "/managed-ledgers/a/b/persistent/t"
OLD_MS = 2 * YOUNG_MS


async def read(url, cluster=READER):
    async with await open_reader(url) as reader:
        return await cluster.read(reader)


async def create(store, path, data=b""):
    await store.create(path, data, parents=True)


def metadata_of(managed_ledger=None, cursor=None, age_ms=OLD_MS):
    custom = {}
    if managed_ledger is not None:
        custom = {"component": b"managed-ledger", "pulsar/managed-ledger": managed_ledger.encode()}
    if cursor is not None:
        custom["pulsar/cursor"] = cursor.encode()
    return encode_ledger_metadata(
        LedgerMetadata(
            1,
            1,
            1,
            segments=(Segment(0, ("b:1",)),),
            ctime=wall_clock_ms() - age_ms,
            custom_metadata=(*custom.items(),),
        )
    )


def test_a_live_topic_is_counted_as_recorded_and_its_owner_writes_on(topic_url):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            topic = await cluster.create_topic("persistent://exporter/live/t")
            cursor = await topic.open_cursor("sub")
            positions = await fill(topic, 25)
            await cursor.acknowledge([positions[3], positions[12]])
            sums = (await read(topic_url)).namespaces["exporter/live"]
            assert (sums.topics, sums.ledgers, sums.entries) == (1, 3, 20)
            assert sums.by_state["snapshot"].cursors == 1
            assert sums.by_state["snapshot"].backlog == 20
            await fill(topic, 5, 25)

    run(main())


def test_a_cursor_closed_in_its_record_is_counted_exactly(topic_url):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            topic = await cluster.create_topic("persistent://exporter/closed/t")
            cursor = await topic.open_cursor("sub")
            positions = await fill(topic, 25)
            await cursor.acknowledge([*positions[:2], positions[3], positions[12]])
        figures = await read(
            topic_url, ClusterReader(ManagedLedgerConfig(), worst=100_000)
        )  # beside other tests' topics
        sums = figures.namespaces["exporter/closed"]
        assert sums.by_state["znode"].cursors == 1
        assert sums.by_state["znode"].backlog == 16
        assert (sums.holes, sums.most_holes) == (2, 2)
        worst = {each.managed_ledger: each for each in figures.holes.worst_first()}
        assert worst["exporter/closed/persistent/t"][0] == 2

    run(main())


def test_bookies_and_marks_are_those_of_bookkeeper_s_nodes(metadata_url):
    async def main():
        async with await open_store(metadata_url) as store:
            await initialize(store)
            for bookie in ("a:1", "b:1", "c:1"):
                await create(store, f"/ledgers/cookies/{bookie}")
            await create(store, "/ledgers/available/a:1")
            await create(store, "/ledgers/available/readonly/b:1")
            mark = encode_underreplicated_ledger(UnderreplicatedLedger(("c:1",), 5000))
            await create(store, underreplicated_path(7), mark)
            await create(store, underreplicated_path(1 << 40), mark)
            await create(store, underreplicated_path(8), b"no mark")
            await create(store, "/ledgers/underreplication/locks/urL0000000007")
            await create(store, "/ledgers/underreplication/disable")
        figures = await read(metadata_url)
        assert figures.bookies.writable == ("a:1",)
        assert figures.bookies.read_only == ("b:1",)
        assert figures.bookies.missing == ("c:1",)
        marks = figures.marks
        assert (marks.ledgers, marks.oldest_ms, dict(marks.missing)) == (3, 5000, {"c:1": 2})
        assert (marks.replicating, marks.enabled, figures.unreadable["mark"]) == (1, False, 1)

    run(main())


def test_only_old_ledgers_that_no_record_names_are_suspected(metadata_url):
    async def main():
        name = "a/b/persistent/t"
        async with await open_store(metadata_url) as store:
            await initialize(store)
            await create(store, TOPIC, encode_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(1), LedgerInfo(2)))))
            await create(store, f"{TOPIC}/sub", encode_managed_cursor_info(ManagedCursorInfo(3)))
            for ledger_id in (1, 2, 4, 5, 10):
                await create(store, ledger_path(ledger_id), metadata_of(name))
            await create(store, ledger_path(3), metadata_of(name, "sub"))
            await create(store, ledger_path(6), metadata_of(name, "sub"))
            await create(store, ledger_path(7), metadata_of(name, age_ms=0))
            await create(store, ledger_path(8), metadata_of())
            await create(store, ledger_path(9), b"damaged")
            await create(store, "/mledger/pending/5", name.encode())
            await create(store, "/mledger/kept/10", name.encode())
        cluster = ClusterReader(ManagedLedgerConfig(), worst=0)
        for _ in range(2):  # what other programs' ledgers are is remembered
            assert (await read(metadata_url, cluster)).orphans == OrphanSuspects(1, 1, 0)

    run(main())


def test_an_unreadable_record_leaves_its_topic_s_ledgers_unsuspected(metadata_url):
    async def main():
        name = "a/b/persistent/t"
        async with await open_store(metadata_url) as store:
            await initialize(store)
            await create(store, TOPIC, b"\xff no record")
            await create(store, ledger_path(1), metadata_of(name))
            await create(store, "/admin/policies/a/b", b"{")
            other = encode_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(2, 5, 50, 1000), LedgerInfo(3))))
            await create(store, TOPIC.replace("/t", "/other"), other)
            await create(store, TOPIC.replace("/t", "/other/sub"), b"\xff")
        figures = await read(metadata_url)
        assert figures.orphans == OrphanSuspects()
        assert dict(figures.unreadable) == {"mark": 0, "topic": 1, "cursor": 1, "policies": 1, "folder": 0}
        assert figures.namespaces["a/b"].untrimmed_ledgers == 0

    run(main())


def test_retention_is_the_namespace_s(metadata_url):
    async def main():
        info = ManagedLedgerInfo((LedgerInfo(2, 5, 50, 1000), LedgerInfo(3)))
        cursor = ManagedCursorInfo(mark_delete=Position(3, -1))
        policies = {
            "default": None,
            "half": b'{"retention_policies":{"retentionTimeInMinutes":60,"retentionSizeInMB":0}}',
            "kept": b'{"retention_policies":{"retentionTimeInMinutes":-1,"retentionSizeInMB":-1}}',
        }
        async with await open_store(metadata_url) as store:
            await initialize(store)
            for namespace, data in policies.items():
                path = TOPIC.replace("/b/", f"/{namespace}/")
                await create(store, path, encode_managed_ledger_info(info))
                await create(store, f"{path}/sub", encode_managed_cursor_info(cursor))
                if data is not None:
                    await create(store, f"/admin/policies/a/{namespace}", data)
        found = (await read(metadata_url)).namespaces
        assert {name: sums.untrimmed_size for name, sums in found.items()} == {
            "a/default": 50,
            "a/half": 50,
            "a/kept": 0,
        }
        assert [name for name, sums in found.items() if sums.retention_without_effect] == ["a/half"]

    run(main())


def test_a_store_without_a_cluster_is_an_error(metadata_url):
    async def main():
        try:
            await read(metadata_url)
        except NodeNotFound as error:
            return str(error)
        raise AssertionError("it was read")

    assert "give the cluster's chroot" in run(main())
