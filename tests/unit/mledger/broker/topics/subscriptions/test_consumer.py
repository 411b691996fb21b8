"""What a consumer is sent whose client cannot read batches."""

from types import SimpleNamespace

from mledger.broker.protocol.message_frames import MessageFrames
from mledger.broker.topics.subscriptions.consumer import Consumer, ConsumerRequest, OutgoingEntries
from mledger.pb import PulsarApi_pb2 as pb

PLAIN = OutgoingEntries(1, [0, 1], [b"0", b"1"], None, {})
PART = OutgoingEntries(1, [2], [b"2"], None, {2: (1,)})


def consumer_of(sent, closed, **options):
    """A consumer with ten permits, whose connection notes what it is to send, and why it is closed."""
    connection = SimpleNamespace(writable=True, deliver=lambda _, outgoing: sent.append(outgoing), close=closed.append)
    subscription = SimpleNamespace(topic=SimpleNamespace(batch_published=False), messages_out=0, bytes_out=0)
    request = ConsumerRequest(0, "old", pb.CommandSubscribe.Shared)
    consumer = Consumer(connection, subscription, request, MessageFrames(0), **options)
    consumer.dispatch.permits = 10
    return consumer


def test_a_consumer_that_is_cut_off_is_sent_nothing_that_stands_behind_the_batch():
    sent, closed = [], []
    consumer = consumer_of(sent, closed, takes_batches=False)
    assert consumer.send(PLAIN, 2, 0, 1)
    assert not consumer.send(PLAIN, 3, 0, 1)
    assert not consumer.send(PLAIN, 2, 0, 1)
    assert not consumer.send(PART, 1, 0, 1)
    assert (sent, len(closed)) == ([PLAIN], 1)
    assert (consumer.messages_out, consumer.dispatch.permits) == (2, 0)
    assert consumer.subscription.topic.batch_published


def test_what_is_left_of_a_batch_is_one_for_clients_that_cannot_read_these():
    sent, closed = [], []
    assert not consumer_of(sent, closed, takes_batches=False).send(PART, 1, 0, 1)
    assert (sent, len(closed)) == ([], 1)


def test_a_client_that_can_read_batches_is_sent_them():
    sent, closed = [], []
    consumer = consumer_of(sent, closed)
    assert consumer.send(PLAIN, 3, 0, 1)
    assert consumer.send(PART, 1, 0, 1)
    assert (sent, closed, consumer.messages_out) == ([PLAIN, PART], [], 4)
    assert not consumer.subscription.topic.batch_published
