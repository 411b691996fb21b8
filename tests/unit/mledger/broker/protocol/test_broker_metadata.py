"""The broker's metadata of entries: Java's bytes, and how indexes are counted."""

import pytest

from mledger.broker.protocol.broker_metadata import (
    INDEXES,
    TIMESTAMPS,
    BrokerMetadataFields,
    BrokerMetadataWriter,
    fields_of,
)
from mledger.messages.pulsar_message import decode_entry
from tests.support.recordings import golden

ENTRIES = [one for file in golden.files("pulsar-frames/entries-*.json") for one in golden.load(file)["entries"]]
BOTH = BrokerMetadataFields(timestamps=True, indexes=True)
PLAIN = bytes.fromhex(next(one["hex"] for one in ENTRIES if not one["brokerEntryMetadata"]))


@pytest.mark.parametrize("one", [one for one in ENTRIES if one["brokerEntryMetadata"]])
def test_the_metadata_is_java_s_bytes(one):
    stored, meant = bytes.fromhex(one["hex"]), one["brokerEntryMetadata"]
    entry = stored[6 + int.from_bytes(stored[2:6], "big") :]
    messages = max(one["numMessagesInBatch"], 1)
    writer = BrokerMetadataWriter(BOTH, next_index=meant["index"] + 1 - messages)
    assert writer.prefixed([entry], [messages], meant["brokerTimestamp"]) == [stored]


def test_the_index_of_an_entry_is_its_last_message_s():
    writer = BrokerMetadataWriter(BOTH)
    stored = writer.prefixed([PLAIN, PLAIN], [3, 1], 5) + writer.prefixed([PLAIN], [2], 6)
    metadata = [decode_entry(entry).broker for entry in stored]
    assert [(one.index, one.broker_timestamp) for one in metadata] == [(2, 5), (3, 5), (5, 6)]
    assert writer.next_index == 6


def test_numbers_of_entries_that_were_not_stored_are_given_again():
    writer = BrokerMetadataWriter(BOTH)
    writer.prefixed([PLAIN], [3], 5)
    writer.taken_back(3)
    assert decode_entry(writer.prefixed([PLAIN], [1], 5)[0]).broker.index == 0


@pytest.mark.parametrize(
    ("interceptors", "timestamps", "indexes"),
    [
        ([], False, False),
        ([TIMESTAMPS], True, False),
        ([INDEXES], False, True),
        ([INDEXES, TIMESTAMPS], True, True),
    ],
)
def test_interceptors_choose_what_is_put_there(interceptors, timestamps, indexes):
    fields = fields_of(interceptors)
    assert (fields.timestamps, fields.indexes, bool(fields)) == (timestamps, indexes, timestamps or indexes)
    if fields:
        (entry,) = BrokerMetadataWriter(fields).prefixed([PLAIN], [1], 5)
        broker = decode_entry(entry).broker
        assert (broker.HasField("broker_timestamp"), broker.HasField("index")) == (timestamps, indexes)
