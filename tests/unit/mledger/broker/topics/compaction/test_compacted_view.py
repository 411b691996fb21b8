"""Entries of a compacted ledger: put together in runs, and the last of its messages."""

import asyncio

import pytest

from mledger.broker.topics.compaction.compacted_view import CompactedLedger, runs_of
from mledger.ledgers.entries.entry import PayloadRun
from mledger.messages.pulsar_message import MOST_MESSAGES, assemble_entry, compacted_entry
from mledger.metastore.records.position import Position
from mledger.pb.PulsarApi_pb2 import MessageIdData, MessageMetadata


class OneEntry:
    """The reader of a ledger with this entry."""

    ledger_id, last_entry = 7, 0

    def __init__(self, entry):
        self.entry = entry

    async def read(self, first, last, max_bytes=None):
        return [self.entry]


def test_entries_that_followed_each_other_in_the_topic_make_one_run():
    entries = [(Position(1, 3), b"a"), (Position(1, 4), b"b"), (Position(1, 6), b"c"), (Position(2, 7), b"d")]
    assert runs_of(entries) == [PayloadRun(1, 3, [b"a", b"b"]), PayloadRun(1, 6, [b"c"]), PayloadRun(2, 7, [b"d"])]


def test_no_entries_make_no_run():
    assert runs_of([]) == []


@pytest.mark.parametrize("count", [2, MOST_MESSAGES + 1], ids=["damaged", "oversized"])
def test_the_last_message_of_a_batch_that_was_kept_whole_is_its_last_one(count):
    """One that cannot be unpacked, and one that says that it has too many messages."""
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, num_messages_in_batch=count)
    stored = compacted_entry(MessageIdData(ledgerId=3, entryId=4), assemble_entry(metadata, b"\xff\xff"))
    ledger = CompactedLedger(OneEntry(stored), Position(3, 4))
    assert asyncio.run(ledger.last_message()) == (Position(3, 4), count - 1)
