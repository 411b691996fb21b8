"""Entries made of messages: batched if asked, numbered if the topic's broker numbers them."""

import pytest

from mledger.messages.pulsar_message import PulsarMessage, decode_entry, encode_entry, messages
from mledger.messages.pulsar_producer import BATCH_BYTES, EntryEncoder, next_index
from mledger.pb.PulsarApi_pb2 import BrokerEntryMetadata

SIX = [PulsarMessage(b"%d" % number, sequence_id=number) for number in range(6)]


def test_without_batches_each_message_is_an_entry_of_its_own():
    made = list(EntryEncoder("p", now_ms=5).entries(SIX))
    assert [each.messages for each in made] == [1] * 6
    entry = decode_entry(made[3].payload)
    assert not entry.batched
    assert (entry.metadata.producer_name, entry.published, messages(entry)) == ("p", 5, [SIX[3]])
    assert entry.broker is None


def test_batches_hold_as_many_messages_as_asked_and_the_rest():
    made = list(EntryEncoder("p", batch_size=4).entries(SIX))
    assert [each.messages for each in made] == [4, 2]
    assert [message for each in made for message in messages(decode_entry(each.payload))] == SIX


def test_a_batch_of_one_message_is_a_batch():
    (made,) = EntryEncoder("p", batch_size=4).entries(SIX[:1])
    assert decode_entry(made.payload).batched


def test_a_batch_ends_before_it_is_too_large():
    large = PulsarMessage(bytes(BATCH_BYTES // 2 + 1))
    assert [each.messages for each in EntryEncoder("p", batch_size=100).entries([large] * 3)] == [1, 1, 1]


def test_the_broker_s_number_of_an_entry_is_that_of_its_last_message():
    encoder = EntryEncoder("p", next_index=10, batch_size=4, now_ms=3)
    brokers = [decode_entry(each.payload).broker for each in encoder.entries(SIX)]
    assert brokers == [
        BrokerEntryMetadata(broker_timestamp=3, index=13),
        BrokerEntryMetadata(broker_timestamp=3, index=15),
    ]
    assert encoder.next_index == 16


@pytest.mark.parametrize(
    ("properties", "last", "expected"),
    [
        ([], None, None),
        ([("index", "-1")], None, 0),
        ([("index", "74")], None, 75),
        ([("index", "74")], 80, 81),
        ([], 4, 5),
        ([("index", "what?")], None, None),
    ],
)
def test_numbers_continue_where_the_broker_stopped(properties, last, expected):
    entry = None
    if last is not None:
        entry = decode_entry(
            encode_entry(SIX[:1], producer_name="p", publish_time=1, broker=BrokerEntryMetadata(index=last))
        )
    assert next_index(properties, entry) == expected
