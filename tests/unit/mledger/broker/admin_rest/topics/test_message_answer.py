"""An entry as an answer: Pulsar's headers, and the payload without compression."""

from mledger.broker.admin_rest.topics.message_answer import plan_message
from mledger.messages.pulsar_message import PulsarMessage, encode_entry
from mledger.metastore.records.compression import CompressionType
from mledger.metastore.records.position import Position
from mledger.pb.PulsarApi_pb2 import BrokerEntryMetadata


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


def test_a_batch_is_given_whole_and_without_compression():
    batch = [PulsarMessage(b"x" * 100, sequence_id=number) for number in range(3)]
    data = encode_entry(batch, producer_name="p", publish_time=1, compression=CompressionType.LZ4)
    answer = plan_message(Position(3, 4), data)
    assert answer.body.count(b"x") == 300
    assert (answer.headers["X-Pulsar-num-batch-message"], answer.headers["X-Pulsar-compression"]) == ("3", "LZ4")
    assert answer.headers["X-Pulsar-uncompressed-size"] == str(len(answer.body))
