"""Opening and closing producers."""

from collections.abc import Coroutine
from typing import Any

from mledger.broker.connections.connection import BrokerConnection
from mledger.broker.protocol import answers
from mledger.broker.schemas.topic_schema import schema_of
from mledger.broker.security.permissions import TopicOperation
from mledger.broker.topics.producers.access import NO_EPOCH, AccessMode
from mledger.broker.topics.producers.producer import Producer, ProducerRequest
from mledger.metastore.records.paths import TopicName
from mledger.pb import PulsarApi_pb2 as pb


def open_producer(connection: BrokerConnection, command: pb.CommandProducer) -> Coroutine[Any, Any, None]:
    """Open a producer; a second request for one that is open gets the same answer."""

    async def work() -> None:
        topic_name = TopicName.parse_served(command.topic)
        found = connection.producers.get(command.producer_id)
        if found is not None and not found.closed and command.epoch <= found.request.epoch:
            _succeed(connection, command.request_id, found)
        else:
            await _open(connection, command, topic_name)

    return connection.opening_producers.open(command.producer_id, work)


async def _open(connection: BrokerConnection, command: pb.CommandProducer, topic_name: TopicName) -> None:
    broker = connection.broker
    await connection.allow(TopicOperation.PRODUCE, topic_name)
    if command.initial_subscription_name:
        await connection.allow(TopicOperation.CONSUME, topic_name, command.initial_subscription_name)
    topic = await broker.topics.topic(topic_name, create=True)
    if command.initial_subscription_name:
        await topic.prepare_subscription(command.initial_subscription_name)
    request = ProducerRequest(
        producer_id=command.producer_id,
        name=command.producer_name or await broker.names.next(),
        user_provided_name=bool(command.producer_name) and command.user_provided_producer_name,
        epoch=command.epoch,
        mode=AccessMode(command.producer_access_mode),
        topic_epoch=command.topic_epoch if command.HasField("topic_epoch") else NO_EPOCH,
        encrypted=command.encrypted,
        metadata={pair.key: pair.value for pair in command.metadata},
    )
    producer = Producer(connection, topic, request)
    schema = schema_of(command.schema) if command.HasField("schema") else None
    producer.schema_version = await broker.schemas.of_producer(topic_name, schema)
    waited = False

    def tell_that_it_waits() -> None:
        nonlocal waited
        waited = True
        _succeed(connection, command.request_id, producer, ready=False)

    try:
        await topic.add_producer(producer, tell_that_it_waits)
        if waited:  # its role can have lost the right meanwhile
            await connection.allow(TopicOperation.PRODUCE, topic_name)
            topic.producers.check_open(producer)
    except BaseException:
        topic.remove_producer(producer)
        raise
    before = connection.producers.get(producer.id)
    if before is not None:  # of another name, or of another topic: nobody else would end it
        before.topic.remove_producer(before)
    connection.producers[producer.id] = producer
    connection.closed_producers.discard(producer.id)
    _succeed(connection, command.request_id, producer)


def close_producer(connection: BrokerConnection, command: pb.CommandCloseProducer) -> None:
    """Close a producer once what it sent is stored; one that is still being opened is given up."""
    connection.opening_producers.give_up(command.producer_id)
    producer = connection.producers.pop(command.producer_id, None)
    connection.closed_producers.discard(command.producer_id)  # its client sends nothing behind this
    if producer is None:
        connection.succeed(command.request_id)
        return

    def end() -> None:
        producer.topic.remove_producer(producer)
        connection.succeed(command.request_id)

    if producer.pending:
        producer.on_drained = end
    else:
        end()


def _succeed(connection: BrokerConnection, request_id: int, producer: Producer, *, ready: bool = True) -> None:
    connection.write(
        answers.producer_success(
            request_id,
            producer.name,
            last_sequence_id=producer.last_sequence_id,
            schema_version=producer.schema_version,
            topic_epoch=None if producer.topic_epoch == NO_EPOCH else producer.topic_epoch,
            ready=ready,
        )
    )
