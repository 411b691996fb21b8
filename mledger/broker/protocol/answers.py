"""Frames that a broker sends: answers to requests, and what it tells clients of its own accord.

Each function returns one whole frame. `code` is a ServerError of PulsarApi.proto; `text` says to people what happened.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from mledger.broker.protocol.versions import ClientFeatures
from mledger.metastore.records.position import Position
from mledger.pb.PulsarApi_pb2 import (
    BaseCommand,
    CommandConsumerStatsResponse,
    CommandGetLastMessageIdResponse,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadataResponse,
    MessageIdData,
    Schema,
    ServerError,
)

SERVER_VERSION = "Pulsar Server 4.2.4 (mledger)"
"""Clients log it."""
UNASKED = (1 << 64) - 1
"""The request id of what the broker does of its own accord."""

Code: TypeAlias = "ServerError.ValueType"
Type = BaseCommand.Type
Kind: TypeAlias = "BaseCommand.Type.ValueType"
_WORD = (1 << 64) - 1


def frame(command: BaseCommand) -> bytes:
    """The frame that holds `command` alone."""
    data = command.SerializeToString()
    return (len(data) + 4).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data


# -- the connection


def connected(features: ClientFeatures, max_message_size: int, *, topic_watchers: bool = True) -> bytes:
    """The answer to CONNECT."""
    command = BaseCommand(type=Type.CONNECTED)
    answer = command.connected
    answer.server_version = SERVER_VERSION
    answer.protocol_version = features.negotiated
    answer.max_message_size = max_message_size
    flags = answer.feature_flags
    flags.supports_topic_watchers = topic_watchers
    flags.supports_get_partitioned_metadata_without_auto_creation = True
    flags.supports_repl_dedup_by_lid_and_eid = False
    flags.supports_topic_watcher_reconcile = topic_watchers
    return frame(command)


def auth_challenge(method: str, data: bytes, features: ClientFeatures) -> bytes:
    """The client is to send its credentials again."""
    command = BaseCommand(type=Type.AUTH_CHALLENGE)
    answer = command.authChallenge
    answer.server_version = SERVER_VERSION
    answer.challenge.auth_method_name = method
    answer.challenge.auth_data = data
    answer.protocol_version = features.negotiated
    return frame(command)


def _empty(kind: Kind, field: str) -> bytes:
    command = BaseCommand(type=kind)
    getattr(command, field).SetInParent()
    return frame(command)


PING = _empty(Type.PING, "ping")
PONG = _empty(Type.PONG, "pong")


# -- any request


def success(request_id: int, schema: Schema | None = None) -> bytes:
    """The request is done."""
    command = BaseCommand(type=Type.SUCCESS)
    command.success.request_id = request_id
    if schema is not None:
        command.success.schema.CopyFrom(schema)
    return frame(command)


def error(request_id: int, code: Code, text: str) -> bytes:
    """The request failed."""
    command = BaseCommand(type=Type.ERROR)
    command.error.request_id = request_id
    command.error.error = code
    command.error.message = text
    return frame(command)


# -- finding topics


def partitioned_metadata(request_id: int, partitions: int) -> bytes:
    """The topic has so many partitions, 0 if it is not partitioned."""
    command = BaseCommand(type=Type.PARTITIONED_METADATA_RESPONSE)
    answer = command.partitionMetadataResponse
    answer.partitions = partitions
    answer.request_id = request_id
    answer.response = CommandPartitionedTopicMetadataResponse.Success
    return frame(command)


def partitioned_metadata_failed(request_id: int, code: Code, text: str) -> bytes:
    """The number of partitions cannot be told."""
    command = BaseCommand(type=Type.PARTITIONED_METADATA_RESPONSE)
    answer = command.partitionMetadataResponse
    answer.request_id = request_id
    answer.response = CommandPartitionedTopicMetadataResponse.Failed
    answer.error = code
    answer.message = text
    return frame(command)


def lookup_connect(
    request_id: int, url: str, *, tls_url: str = "", authoritative: bool = True, through_service_url: bool = False
) -> bytes:
    """The broker at `url` has the topic."""
    kind = CommandLookupTopicResponse.Connect
    return _lookup(request_id, kind, url, tls_url, authoritative, through_service_url)


def lookup_redirect(request_id: int, url: str, *, tls_url: str = "", authoritative: bool = False) -> bytes:
    """The broker at `url` is to be asked; `authoritative`: it is to own the topic."""
    return _lookup(request_id, CommandLookupTopicResponse.Redirect, url, tls_url, authoritative, False)


def _lookup(
    request_id: int,
    kind: CommandLookupTopicResponse.LookupType.ValueType,
    url: str,
    tls_url: str,
    authoritative: bool,
    through_service_url: bool,
) -> bytes:
    command = BaseCommand(type=Type.LOOKUP_RESPONSE)
    answer = command.lookupTopicResponse
    if url:
        answer.brokerServiceUrl = url
    if tls_url:
        answer.brokerServiceUrlTls = tls_url
    answer.response = kind
    answer.request_id = request_id
    answer.authoritative = authoritative
    answer.proxy_through_service_url = through_service_url
    return frame(command)


def lookup_failed(request_id: int, code: Code, text: str) -> bytes:
    """No broker can be named."""
    command = BaseCommand(type=Type.LOOKUP_RESPONSE)
    answer = command.lookupTopicResponse
    answer.response = CommandLookupTopicResponse.Failed
    answer.request_id = request_id
    answer.error = code
    answer.message = text
    return frame(command)


def topics_of_namespace(
    request_id: int, topics: Iterable[str], *, topics_hash: str = "", filtered: bool = False, changed: bool = True
) -> bytes:
    """The topics; not `changed`: the client's hash is still theirs, and they are left out."""
    command = BaseCommand(type=Type.GET_TOPICS_OF_NAMESPACE_RESPONSE)
    answer = command.getTopicsOfNamespaceResponse
    answer.request_id = request_id
    answer.topics.extend(topics)
    if topics_hash:
        answer.topics_hash = topics_hash
    answer.filtered = filtered
    answer.changed = changed
    return frame(command)


def watch_success(request_id: int, watcher_id: int, topics: Iterable[str], topics_hash: str) -> bytes:
    """Topics are watched; these are there now."""
    command = BaseCommand(type=Type.WATCH_TOPIC_LIST_SUCCESS)
    answer = command.watchTopicListSuccess
    answer.request_id = request_id
    answer.watcher_id = watcher_id
    answer.topic.extend(topics)
    answer.topics_hash = topics_hash
    return frame(command)


def watch_update(watcher_id: int, new: Iterable[str], deleted: Iterable[str], topics_hash: str) -> bytes:
    """Watched topics came and went."""
    command = BaseCommand(type=Type.WATCH_TOPIC_UPDATE)
    update = command.watchTopicUpdate
    update.watcher_id = watcher_id
    update.new_topics.extend(new)
    update.deleted_topics.extend(deleted)
    update.topics_hash = topics_hash
    return frame(command)


# -- producers


def producer_success(
    request_id: int,
    name: str,
    *,
    last_sequence_id: int = -1,
    schema_version: bytes = b"",
    topic_epoch: int | None = None,
    ready: bool = True,
) -> bytes:
    """A producer is open; not `ready`: it waits for exclusive access, and a second answer follows."""
    command = BaseCommand(type=Type.PRODUCER_SUCCESS)
    answer = command.producer_success
    answer.request_id = request_id
    answer.producer_name = name
    answer.last_sequence_id = last_sequence_id
    answer.schema_version = schema_version
    if topic_epoch is not None:
        answer.topic_epoch = topic_epoch
    answer.producer_ready = ready
    return frame(command)


def send_error(producer_id: int, sequence_id: int, code: Code, text: str) -> bytes:
    """A message is not stored."""
    command = BaseCommand(type=Type.SEND_ERROR)
    command.send_error.producer_id = producer_id
    command.send_error.sequence_id = sequence_id & _WORD
    command.send_error.error = code
    command.send_error.message = text
    return frame(command)


def close_producer(producer_id: int, *, url: str = "", tls_url: str = "") -> bytes:
    """The broker closes a producer, which looks its topic up again, or goes to `url` at once."""
    command = BaseCommand(type=Type.CLOSE_PRODUCER)
    close = command.close_producer
    close.producer_id = producer_id
    close.request_id = UNASKED
    if url:
        close.assignedBrokerServiceUrl = url
    if tls_url:
        close.assignedBrokerServiceUrlTls = tls_url
    return frame(command)


# -- consumers


def close_consumer(consumer_id: int, *, url: str = "", tls_url: str = "") -> bytes:
    """The broker closes a consumer, which looks its topic up again, or goes to `url` at once."""
    command = BaseCommand(type=Type.CLOSE_CONSUMER)
    close = command.close_consumer
    close.consumer_id = consumer_id
    close.request_id = UNASKED
    if url:
        close.assignedBrokerServiceUrl = url
    if tls_url:
        close.assignedBrokerServiceUrlTls = tls_url
    return frame(command)


def ack_response(
    consumer_id: int,
    request_id: int,
    code: "Code | None" = None,
    text: str = "",
    *,
    transaction: tuple[int, int] | None = None,
) -> bytes:
    """Acknowledgements are durable, or failed with `code`; `transaction` is (most, least significant bits)."""
    command = BaseCommand(type=Type.ACK_RESPONSE)
    answer = command.ackResponse
    answer.consumer_id = consumer_id
    if code is not None:
        answer.error = code
        answer.message = text
    answer.request_id = request_id
    return frame(command)


def active_consumer_change(consumer_id: int, is_active: bool) -> bytes:
    """The consumer is the active one of its failover subscription now, or is so no longer."""
    command = BaseCommand(type=Type.ACTIVE_CONSUMER_CHANGE)
    command.active_consumer_change.consumer_id = consumer_id
    command.active_consumer_change.is_active = is_active
    return frame(command)


def reached_end_of_topic(consumer_id: int) -> bytes:
    """The topic is terminated, and the consumer has got its last message."""
    command = BaseCommand(type=Type.REACHED_END_OF_TOPIC)
    command.reachedEndOfTopic.consumer_id = consumer_id
    return frame(command)


def last_message_id(
    request_id: int,
    last: Position,
    *,
    partition: int = -1,
    batch_index: int = -1,
    mark_delete: Position | None = None,
) -> bytes:
    """The topic's last message, and up to where the consumer's subscription has acknowledged."""
    command = BaseCommand(type=Type.GET_LAST_MESSAGE_ID_RESPONSE)
    answer: CommandGetLastMessageIdResponse = command.getLastMessageIdResponse
    _put_position(answer.last_message_id, last)
    answer.last_message_id.partition = partition
    answer.last_message_id.batch_index = batch_index
    answer.request_id = request_id
    if mark_delete is not None:
        _put_position(answer.consumer_mark_delete_position, mark_delete)
    return frame(command)


def _put_position(target: MessageIdData, position: Position) -> None:
    target.ledgerId = position.ledger_id & _WORD
    target.entryId = position.entry_id & _WORD


def consumer_stats(stats: CommandConsumerStatsResponse) -> bytes:
    """The figures of a consumer; `stats` has the request id."""
    command = BaseCommand(type=Type.CONSUMER_STATS_RESPONSE)
    command.consumerStatsResponse.CopyFrom(stats)
    return frame(command)


def consumer_stats_failed(request_id: int, code: Code, text: str) -> bytes:
    """There are no figures of that consumer."""
    stats = CommandConsumerStatsResponse(request_id=request_id, error_code=code, error_message=text)
    return consumer_stats(stats)


# -- schemas


def schema_found(request_id: int, schema: Schema, version: bytes) -> bytes:
    """The answer to GET_SCHEMA."""
    command = BaseCommand(type=Type.GET_SCHEMA_RESPONSE)
    answer = command.getSchemaResponse
    answer.request_id = request_id
    answer.schema.CopyFrom(schema)
    answer.schema_version = version
    return frame(command)


def schema_failed(request_id: int, code: Code, text: str) -> bytes:
    """The schema cannot be given."""
    command = BaseCommand(type=Type.GET_SCHEMA_RESPONSE)
    answer = command.getSchemaResponse
    answer.request_id = request_id
    answer.error_code = code
    answer.error_message = text
    return frame(command)


def schema_stored(request_id: int, version: bytes) -> bytes:
    """The answer to GET_OR_CREATE_SCHEMA."""
    command = BaseCommand(type=Type.GET_OR_CREATE_SCHEMA_RESPONSE)
    answer = command.getOrCreateSchemaResponse
    answer.request_id = request_id
    answer.schema_version = version
    return frame(command)


def schema_not_stored(request_id: int, code: Code, text: str) -> bytes:
    """The schema is not the topic's and does not become it."""
    command = BaseCommand(type=Type.GET_OR_CREATE_SCHEMA_RESPONSE)
    answer = command.getOrCreateSchemaResponse
    answer.request_id = request_id
    answer.error_code = code
    answer.error_message = text
    return frame(command)


# -- transactions, which this broker does not have

_TRANSACTIONS: dict[Kind, tuple[Kind, str]] = {
    Type.TC_CLIENT_CONNECT_REQUEST: (Type.TC_CLIENT_CONNECT_RESPONSE, "tcClientConnectResponse"),
    Type.NEW_TXN: (Type.NEW_TXN_RESPONSE, "newTxnResponse"),
    Type.ADD_PARTITION_TO_TXN: (Type.ADD_PARTITION_TO_TXN_RESPONSE, "addPartitionToTxnResponse"),
    Type.ADD_SUBSCRIPTION_TO_TXN: (Type.ADD_SUBSCRIPTION_TO_TXN_RESPONSE, "addSubscriptionToTxnResponse"),
    Type.END_TXN: (Type.END_TXN_RESPONSE, "endTxnResponse"),
    Type.END_TXN_ON_PARTITION: (Type.END_TXN_ON_PARTITION_RESPONSE, "endTxnOnPartitionResponse"),
    Type.END_TXN_ON_SUBSCRIPTION: (Type.END_TXN_ON_SUBSCRIPTION_RESPONSE, "endTxnOnSubscriptionResponse"),
}


def transaction_refused(asked: Kind, request_id: int, code: Code, text: str) -> bytes:
    """The refusal that answers a command of transactions, in the form that belongs to it.

    Raises KeyError if `asked` is none of them.
    """
    kind, field = _TRANSACTIONS[asked]
    command = BaseCommand(type=kind)
    answer = getattr(command, field)
    answer.request_id = request_id
    answer.error = code
    answer.message = text
    return frame(command)


TRANSACTION_COMMANDS: Sequence[Kind] = tuple(_TRANSACTIONS)
