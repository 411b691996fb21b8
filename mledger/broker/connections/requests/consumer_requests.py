"""Subscribing, and the requests of consumers that are not on the hot path."""

from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

from mledger.broker.client_events import ConsumerSubscribed, RequestAllowed, Subscribing
from mledger.broker.connections.connection import BrokerConnection
from mledger.broker.dispatch.keys.key_hash import KeyRange
from mledger.broker.protocol import answers
from mledger.broker.protocol.message_frames import NO_EPOCH, MessageFrames
from mledger.broker.protocol.requests import position_of
from mledger.broker.protocol.varints import signed
from mledger.broker.refusals import NO_TRANSACTIONS, BrokerRefusal
from mledger.broker.schemas.topic_schema import schema_of
from mledger.broker.security.permissions import TopicOperation
from mledger.broker.topics.client_rates import rates_out
from mledger.broker.topics.served_topic import ServedTopic
from mledger.broker.topics.subscriptions.admission import check_batches, check_kind, check_metadata
from mledger.broker.topics.subscriptions.consumer import Consumer, ConsumerRequest, kind_name
from mledger.broker.topics.subscriptions.subscribe_limiter import Subscriber
from mledger.broker.topics.subscriptions.subscription import BrokerSubscription
from mledger.broker.topics.subscriptions.topic_subscriptions import SubscriptionRequest
from mledger.cursors.positions import EARLIEST
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import NO_ENTRY, Position
from mledger.pb import PulsarApi_pb2 as pb

SubType = pb.CommandSubscribe


def subscribe(connection: BrokerConnection, command: pb.CommandSubscribe) -> Coroutine[Any, Any, None]:
    """Open a consumer; a second request for one that is open gets the same answer."""

    async def work() -> None:
        topic_name = TopicName.parse_served(command.topic)
        if command.consumer_id in connection.consumers:
            connection.succeed(command.request_id)
        else:
            await _subscribe(connection, command, topic_name)

    return connection.opening_consumers.open(command.consumer_id, work)


async def _subscribe(connection: BrokerConnection, command: pb.CommandSubscribe, topic_name: TopicName) -> None:
    broker, key, client = connection.broker, topic_name.managed_ledger_name, connection.address
    await connection.allow(TopicOperation.CONSUME, topic_name, command.subscription)
    broker.events(RequestAllowed(key, client, "subscribe", connection.principal.role))
    broker.events(Subscribing(key, client, command.subscription))
    if command.read_compacted and command.subType not in (SubType.Exclusive, SubType.Failover):
        raise BrokerRefusal(pb.NotAllowedError, "only exclusive and failover subscriptions read the compacted view")
    check_metadata(topic_name, {pair.key: pair.value for pair in command.metadata}, broker.settings)
    topic = await broker.topics.topic(topic_name, create=command.force_topic_creation)
    check_kind(topic_name, command.subType, topic.settings)
    check_batches(topic, connection.features)
    topic.check_subscribe_rate(Subscriber(connection.host, command.consumer_name, command.consumer_id))
    schema = schema_of(command.schema) if command.HasField("schema") else None
    if schema is not None:
        await broker.schemas.check_consumer(topic_name, schema, idle=_is_idle(topic))
    if command.subType == SubType.Exclusive:
        await _free_place(connection, topic, command.subscription)
    subscription = await topic.subscriptions.open(subscription_request_of(command))
    async with subscription.lock:
        frames = MessageFrames.to(
            connection.features,
            command.consumer_id,
            partition=topic_name.partition_number,
            broker_metadata_exposed=broker.settings.expose_entry_metadata,
        )
        takes_batches = connection.features.takes_batches
        consumer = Consumer(connection, subscription, request_of(command), frames, takes_batches=takes_batches)
        subscription.add(consumer)
    connection.consumers[consumer.id] = consumer
    broker.events(ConsumerSubscribed(key, client, subscription.name, consumer.name, subscription.backlog))
    connection.succeed(command.request_id)
    subscription.begin()


async def _free_place(connection: BrokerConnection, topic: ServedTopic, name: str) -> None:
    """Have a consumer gone whose client does not live any more: nobody may have told of its end."""
    subscription = topic.subscriptions.get(name)
    for consumer in list(subscription.consumers) if subscription is not None else ():
        if consumer.connection is not connection:
            await consumer.connection.lives()


def _is_idle(topic: ServedTopic) -> bool:
    """Whether nobody has used a topic in a way that says that it has no schema."""
    if topic.has_messages or len(topic.producers):  # of ten thousand subscriptions none has to be looked at
        return False
    consumers = (consumer for subscription in topic.subscriptions for consumer in subscription.consumers)
    return all(consumer.request.takes_any_schema for consumer in consumers)


def subscription_request_of(command: pb.CommandSubscribe) -> SubscriptionRequest:
    """Which subscription a SUBSCRIBE names, and where it starts if it is new."""
    start = None
    if command.HasField("start_message_id"):
        start = position_of(command.start_message_id)
        if start.entry_id >= 0:
            # The client drops what it does not want: the message itself, unless it is to be included, or its batch's.
            start = Position(start.ledger_id, start.entry_id - 1)
    return SubscriptionRequest(
        name=command.subscription,
        durable=command.durable,
        initial="earliest" if command.initialPosition == pb.CommandSubscribe.Earliest else "latest",
        start_after=start,
        rollback_s=command.start_message_rollback_duration_sec,
        properties={pair.key: pair.value for pair in command.subscription_properties},
        replicated=command.replicate_subscription_state,
    )


def request_of(command: pb.CommandSubscribe) -> ConsumerRequest:
    """What a SUBSCRIBE asks of a subscription."""
    meta = command.keySharedMeta
    takes_ranges = command.subType in (SubType.Exclusive, SubType.Key_Shared)
    return ConsumerRequest(
        consumer_id=command.consumer_id,
        name=command.consumer_name,
        kind=command.subType,
        priority=command.priority_level,
        durable=command.durable,
        key_ranges=tuple(KeyRange(each.start, each.end) for each in meta.hashRanges) if takes_ranges else (),
        sticky=meta.keySharedMode == pb.STICKY,
        out_of_order=meta.allowOutOfOrderDelivery,
        epoch=command.consumer_epoch if command.HasField("consumer_epoch") else NO_EPOCH,
        read_compacted=command.read_compacted,
        from_earliest=subscription_request_of(command).start == "earliest",
        takes_any_schema=command.HasField("schema") and command.schema.type == pb.Schema.AutoConsume,
        metadata={pair.key: pair.value for pair in command.metadata},
    )


def close_consumer(connection: BrokerConnection, command: pb.CommandCloseConsumer) -> None:
    """Close a consumer; one that is still being opened is given up."""
    connection.opening_consumers.give_up(command.consumer_id)
    consumer = connection.consumers.pop(command.consumer_id, None)
    if consumer is not None:
        consumer.subscription.close_consumer(consumer)
    connection.succeed(command.request_id)


async def _permitted(connection: BrokerConnection, number: int) -> Consumer:
    """A consumer that may change its subscription still: its role can have lost the right since it subscribed.

    Raises:
        BrokerRefusal: it is not open, or was closed meanwhile.
        NotAuthorized: it may not.
    """
    consumer = connection.consumer(number)
    subscription = consumer.subscription
    await connection.allow(TopicOperation.CONSUME, subscription.topic.name, subscription.name)
    if connection.consumer(number) is not consumer:
        raise BrokerRefusal(pb.ServiceNotReady, f"consumer {number} was closed before the request was carried out")
    return consumer


async def unsubscribe(connection: BrokerConnection, command: pb.CommandUnsubscribe) -> None:
    """Delete a consumer's subscription."""
    consumer = await _permitted(connection, command.consumer_id)
    await consumer.subscription.delete(consumer, force=command.force)
    if connection.consumers.get(consumer.id) is consumer:  # its number may be another one's by now
        del connection.consumers[consumer.id]
    connection.succeed(command.request_id)


async def seek(connection: BrokerConnection, command: pb.CommandSeek) -> None:
    """Move a subscription: to a message, to a batch index, to a time."""
    consumer = await _permitted(connection, command.consumer_id)
    if command.HasField("message_id"):
        to = command.message_id
        await consumer.subscription.seek(position_of(to), tuple(to.ack_set))
    elif command.HasField("message_publish_time"):
        await consumer.subscription.seek_to_time(signed(command.message_publish_time))
    else:
        raise BrokerRefusal(pb.MetadataError, "a SEEK names neither a message nor a time")
    connection.succeed(command.request_id)


def redeliver(connection: BrokerConnection, command: pb.CommandRedeliverUnacknowledgedMessages) -> None:
    """Send a consumer some of its messages again, or all that it holds."""
    consumer = connection.consumers.get(command.consumer_id)
    if consumer is not None:
        positions = [position_of(each) for each in command.message_ids] or None
        epoch = command.consumer_epoch if command.HasField("consumer_epoch") else NO_EPOCH
        consumer.subscription.redeliver(consumer, positions, epoch)


def acknowledge(connection: BrokerConnection, command: pb.CommandAck) -> None:
    """Refuse to acknowledge in a transaction; the receiver reads all other acknowledgements."""
    if command.HasField("request_id"):
        refusal = BrokerRefusal(pb.NotAllowedError, NO_TRANSACTIONS)
        connection.refuse_ack(command.consumer_id, command.request_id, refusal)


async def last_message_id(connection: BrokerConnection, command: pb.CommandGetLastMessageId) -> None:
    """Answer with the id of the last message of a consumer's topic, and with what it has acknowledged."""
    consumer = connection.consumer(command.consumer_id)
    subscription = consumer.subscription
    topic = subscription.topic
    last, batch_index = await topic.last_message(compacted=consumer.request.read_compacted)
    if last.entry_id == NO_ENTRY:  # as Pulsar says that there is none, whatever ledger it would be in
        last = EARLIEST
    connection.write(
        answers.last_message_id(
            command.request_id,
            last,
            partition=topic.name.partition_number,
            batch_index=batch_index,
            mark_delete=subscription.mark_delete,
        )
    )


def consumer_stats(connection: BrokerConnection, command: pb.CommandConsumerStats) -> None:
    """Answer with the figures of a consumer and of its subscription."""
    consumer = connection.consumers.get(command.consumer_id)
    if consumer is None:
        why = f"consumer {command.consumer_id} is not open on this connection"
        connection.write(answers.consumer_stats_failed(command.request_id, pb.ConsumerNotFound, why))
        return
    dispatch, subscription = consumer.dispatch, consumer.subscription
    rates = rates_out((consumer,))
    expired = subscription.advance.rates.per_second[0] if isinstance(subscription, BrokerSubscription) else 0.0
    stats = pb.CommandConsumerStatsResponse(
        request_id=command.request_id,
        msgRateOut=rates.messages,
        msgThroughputOut=rates.size,
        msgRateRedeliver=rates.redelivered,
        consumerName=consumer.name,
        availablePermits=max(0, dispatch.permits),
        unackedMessages=dispatch.unacked,
        blockedConsumerOnUnackedMsgs=dispatch.blocked,
        address=connection.address,
        connectedSince=datetime.fromtimestamp(consumer.connected_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        type=kind_name(consumer.request.kind),
        msgRateExpired=expired,
        msgBacklog=subscription.backlog,
        messageAckRate=rates.acked,
    )
    connection.write(answers.consumer_stats(stats))
