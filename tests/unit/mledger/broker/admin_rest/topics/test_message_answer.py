"""An entry as an answer: Pulsar's headers, and the payload without compression."""

import pytest

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.topics.message_answer import plan_message
from mledger.messages.pulsar_message import MOST_UNPACKED, PulsarMessage, assemble_entry, encode_entry
from mledger.metastore.records.compression import CompressionType, pack_block
from mledger.metastore.records.position import Position
from mledger.pb.PulsarApi_pb2 import BrokerEntryMetadata, MessageMetadata


def test_a_message_has_its_metadata_in_headers():
    message = PulsarMessage(b"hello", key="k", properties={"a": "b"}, sequence_id=7, event_time=1_700_000_000_000)
    broker = BrokerEntryMetadata(broker_timestamp=1_700_000_000_001, index=5)
    data = encode_entry([message], producer_name="p", publish_time=1_700_000_000_002, broker=broker)
    answer = plan_message(Position(3, 4), data)
    assert answer.body == b"hello"
    assert answer.headers == {
        "X-Pulsar-Message-ID": "3:4",
        "X-Pulsar-PROPERTY": '{"a":"b"}',
        "X-Pulsar-publish-time": "2023-11-14T22:13:20.002Z",
        "X-Pulsar-event-time": "2023-11-14T22:13:20.000Z",
        "X-Pulsar-Is-Encrypted": "false",
        "X-Pulsar-producer-name": "p",
        "X-Pulsar-sequence-id": "7",
        "X-Pulsar-partition-key": "k",
        "X-Pulsar-txn-uncommitted": "false",
        "X-Pulsar-Broker-Entry-METADATA-timestamp": "2023-11-14T22:13:20.001Z",
        "X-Pulsar-Broker-Entry-METADATA-index": "5",
    }


@pytest.mark.parametrize(
    ("event_time", "expected"),
    [
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "+10000-01-01T00:00:00.000Z"),
        (1_700_000_000_000_000_000, "+53872825-06-17T22:13:20.000Z"),
        ((1 << 64) - 1, "1969-12-31T23:59:59.999Z"),
    ],
)
def test_a_time_may_be_any_number(event_time, expected):
    data = encode_entry([PulsarMessage(b"", event_time=event_time)], producer_name="p", publish_time=1)
    assert plan_message(Position(3, 4), data).headers["X-Pulsar-event-time"] == expected


def test_texts_that_are_not_utf_8_are_shown_as_far_as_they_can_be():
    """As a C++ client sends them."""
    fields = MessageMetadata(producer_name="pQ", sequence_id=1, publish_time=1, partition_key="kQ")
    fields.properties.add(key="aQ", value="bQ")
    metadata = fields.SerializeToString().replace(b"Q", b"\xff")
    headers = plan_message(Position(3, 4), len(metadata).to_bytes(4, "big") + metadata).headers
    assert headers["X-Pulsar-PROPERTY"] == '{"a\\ufffd":"b\\ufffd"}'
    assert (headers["X-Pulsar-producer-name"], headers["X-Pulsar-partition-key"]) == ("p\ufffd", "k\ufffd")


def test_a_batch_is_given_whole_and_without_compression():
    batch = [PulsarMessage(b"x" * 100, sequence_id=number) for number in range(3)]
    data = encode_entry(batch, producer_name="p", publish_time=1, compression=CompressionType.LZ4)
    answer = plan_message(Position(3, 4), data)
    assert answer.body.count(b"x") == 300
    assert (answer.headers["X-Pulsar-num-batch-message"], answer.headers["X-Pulsar-compression"]) == ("3", "LZ4")
    assert answer.headers["X-Pulsar-uncompressed-size"] == str(len(answer.body))


def test_a_message_that_unpacks_to_very_much_is_not_shown():
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, uncompressed_size=MOST_UNPACKED + 1)
    metadata.compression = CompressionType.ZSTD.value
    packed = pack_block(CompressionType.ZSTD, bytes(MOST_UNPACKED + 1))
    with pytest.raises(AdminRefusal) as caught:
        plan_message(Position(3, 4), assemble_entry(metadata, packed))
    assert caught.value.status == 422
