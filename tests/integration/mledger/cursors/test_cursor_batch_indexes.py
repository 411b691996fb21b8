"""Acknowledgements of parts of batches: their words, and with acknowledgmentAtBatchIndexLevelEnabled off (D11)."""

from dataclasses import replace

import mledger
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import BatchDeletion
from tests.support.aio import run
from tests.support.topics import KEEP, fill

WHOLE = replace(KEEP, deletion_at_batch_index_level_enabled=False)


def test_without_batch_indexes_a_partial_acknowledgement_changes_nothing(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=WHOLE) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 5)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge_batch(positions[0], [0b0110])
            assert (cursor.backlog, cursor.batch_deleted(positions[0])) == (5, None)
            await cursor.acknowledge_batch(positions[0], [0])
            assert (cursor.backlog, cursor.mark_delete) == (4, positions[0])
            await cursor.acknowledge_cumulative(positions[3], ack_set=[0b0001])
            assert (cursor.mark_delete, cursor.batch_deleted(positions[3])) == (positions[2], None)

    run(main())


def test_unsigned_words_are_durable(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 3)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge_batch(positions[1], [(1 << 64) - 2])
            await cursor.acknowledge(positions[:1])
            await opened.abandon()
            again = await (await cluster.open_topic(topic)).open_cursor("sub")
            assert (again.mark_delete, again.batch_deleted(positions[1])) == (positions[0], (-2,))

    run(main())


def test_a_reset_into_a_batch_past_the_end_acknowledges_nothing_of_what_comes_there(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            last = (await fill(opened, 3))[-1]
            cursor = await opened.open_cursor("sub")
            ahead = Position(last.ledger_id, last.entry_id + 2)
            await cursor.reset(ahead, batch=BatchDeletion(ahead, (0b10,)))
            assert (await fill(opened, 2))[-1] == ahead
            assert cursor.batch_deleted(ahead) is None

    run(main())
