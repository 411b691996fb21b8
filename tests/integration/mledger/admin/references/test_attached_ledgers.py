"""Deleting a topic also deletes what Pulsar keeps beside its list: compaction, delayed delivery, transactions (M8)."""

from dataclasses import replace

import mledger
from mledger.admin.references.attached_ledgers import find_attached, pending_ack_topic, pending_ack_topics
from mledger.admin.references.ledger_audit import LedgerAuditor
from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.bookie.errors import BookieUnavailable
from mledger.ledgers.orphans.references import Naming
from mledger.metastore.batched_store import MOST_OPERATIONS
from mledger.metastore.records.paths import TopicName, deletion_path, managed_ledger_path
from mledger.metastore.url import open_store
from mledger.topics.deletion import delete_managed_ledger
from tests.support.aio import run
from tests.support.compacted_topics import BUCKET, compacted_topic, exists, make_ledger
from tests.support.ledgers import client
from tests.support.topics import KEEP, assert_nothing_orphaned, fill, managed_ledger_of

NO_RANGES_IN_RECORDS = replace(KEEP, max_unacked_ranges_to_persist_in_metadata_store=0)


def test_a_deleted_topic_leaves_no_ledger_of_compaction_delayed_delivery_or_transactions(topic_url, topic):
    async def main():
        ours, others = await compacted_topic(topic_url, topic, clean=False)
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            name = TopicName.parse(topic)
            (acks,) = await pending_ack_topics(cluster.metadata, name)
            await cluster.delete_topic(topic)
            for each in (name, acks):
                assert await cluster.metadata.exists(each.managed_ledger_path) is None
        assert [name for name, ledger_id in ours.items() if await exists(topic_url, ledger_id)] == []
        assert [each for each in others if not await exists(topic_url, each)] == []
        for each in (name, acks):
            await assert_nothing_orphaned(topic_url, each.managed_ledger_name)

    run(main())


def test_a_deletion_says_that_it_leaves_what_it_cannot_find_out(topic_url, topic, monkeypatch, caplog):
    async def silent(*_):
        raise BookieUnavailable("no bookie answers")

    async def main():
        ours, _ = await compacted_topic(topic_url, topic, clean=False)
        async with mledger.open_cluster(topic_url, config=NO_RANGES_IN_RECORDS) as cluster:
            monkeypatch.setattr(cluster.bookkeeper, "peek", silent)
            await cluster.delete_topic(topic)
            assert await exists(topic_url, ours["compacted"])
            assert "event=deletion_leaves_unknown" in caplog.text
            await cluster.bookkeeper.delete_ledger(ours["compacted"])

    run(main())


def test_the_plan_names_everything_that_is_deleted_with_a_topic(topic_url, topic):
    async def main():
        ours, _ = await compacted_topic(topic_url, topic, clean=True)
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            name = TopicName.parse(topic).managed_ledger_name
            paths = [f"{managed_ledger_path(name)}/{cursor}" for cursor in ("__compaction", "delayed")]
            bookies = BookKeeperReader(cluster.metadata, ClientConfig())
            found = await find_attached(cluster.metadata, bookies, name, paths)
            await bookies.close()
            assert found.unknown == ()
            assert {each.ledger_id: (each.naming, each.entries, each.size) for each in found.ledgers} == {
                ours["compacted"]: (Naming.COMPACTED, 10, 100),
                ours["bucket"]: (Naming.DELAYED, 10, 100),
            }
            await cluster.delete_topic(topic)

    run(main())


def test_a_topic_of_transactions_that_may_belong_to_another_is_kept(topic_url, topic):
    async def main():
        other = f"{topic}-b"
        shared = pending_ack_topic(TopicName.parse(other), "c")
        assert shared == pending_ack_topic(TopicName.parse(topic), "b-c")
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            for name, subscription in ((topic, "b-c"), (other, "c"), (str(shared), "__pending_ack_state")):
                opened = await cluster.create_topic(name)
                await opened.open_cursor(subscription)
                await opened.close()
            await cluster.delete_topic(topic)
            assert {other, str(shared)} <= set(await cluster.topics())
            await cluster.delete_topic(other)
            assert str(shared) not in await cluster.topics()

    run(main())


def test_a_topic_whose_cursor_ledger_is_already_recorded_for_deletion_is_deleted(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=NO_RANGES_IN_RECORDS) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("one")
            await cursor.acknowledge((await fill(opened, 5))[::2])
            cursor_ledger = cursor.cursor_ledger
            await opened.abandon()
            async with await open_store(topic_url) as store:  # as an interrupted repair leaves it
                await store.create(deletion_path(cursor_ledger), managed_ledger_of(topic).encode())
            await cluster.delete_topic(topic)
            assert not await exists(topic_url, cursor_ledger)
        await assert_nothing_orphaned(topic_url, managed_ledger_of(topic))

    run(main())


def test_no_write_grows_with_the_ledgers_that_cursors_name(topic_url, topic, monkeypatch):
    cursors, buckets = 20, 30

    async def main():
        ids = [
            await make_ledger(topic_url, component="delayed-index-bucket", pulsar_delayedIndexTopic=topic)
            for _ in range(cursors * buckets)
        ]
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            for at in range(0, len(ids), buckets):
                properties = {f"{BUCKET}_{each}": str(each) for each in ids[at : at + buckets]}
                await opened.open_cursor(f"cursor-{at}", cursor_properties=properties)
            await opened.close()
        sizes = []
        async with await open_store(topic_url) as store, client(topic_url) as bookkeeper:
            multi = store.multi

            async def counted(operations):
                sizes.append(len(operations))
                return await multi(operations)

            monkeypatch.setattr(store, "multi", counted)
            await delete_managed_ledger(store, bookkeeper, managed_ledger_of(topic))
            assert max(sizes) <= MOST_OPERATIONS + 1
            assert not any([await exists(topic_url, each) for each in (ids[0], ids[-1])])

    run(main())


def test_numbers_of_no_ledger_that_clients_set_stop_neither_an_audit_nor_the_deletion_of_a_topic(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            (first, *_) = await fill(opened, 3)
            cursor = await opened.open_cursor(
                "sub", cursor_properties={f"{BUCKET}_1_2": "9" * 5000, f"{BUCKET}_3_4": str(2**63)}
            )
            await cursor.acknowledge_cumulative(first, {"CompactedTopicLedger": -5})
            name = opened.name
            await opened.close()
            async with client(topic_url) as bookkeeper:
                audit = await LedgerAuditor(cluster.metadata, bookkeeper).audit(now_ms=0)
            assert not [each for each in audit.dangling if each.path.endswith("/sub")]
            await cluster.delete_topic(topic)
        await assert_nothing_orphaned(topic_url, name)

    run(main())
