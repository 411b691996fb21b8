"""Which module serves which command."""

from collections.abc import Mapping

from mledger.broker.connections.connection import Handler
from mledger.broker.connections.requests import (
    consumer_requests,
    handshake,
    lookup_requests,
    producer_requests,
    schema_requests,
)
from mledger.broker.connections.requests.transaction_requests import refuse_transaction
from mledger.broker.protocol.answers import TRANSACTION_COMMANDS
from mledger.pb.PulsarApi_pb2 import BaseCommand as Type

HANDLERS: Mapping[int, Handler] = {
    Type.CONNECT: handshake.connect,
    Type.AUTH_RESPONSE: handshake.renew,
    Type.PING: handshake.ping,
    Type.PONG: handshake.pong,
    Type.PARTITIONED_METADATA: lookup_requests.partitions,
    Type.LOOKUP: lookup_requests.lookup,
    Type.GET_TOPICS_OF_NAMESPACE: lookup_requests.topics_of_namespace,
    Type.WATCH_TOPIC_LIST: lookup_requests.watch_topics,
    Type.WATCH_TOPIC_LIST_CLOSE: lookup_requests.close_watcher,
    Type.PRODUCER: producer_requests.open_producer,
    Type.CLOSE_PRODUCER: producer_requests.close_producer,
    Type.SUBSCRIBE: consumer_requests.subscribe,
    Type.CLOSE_CONSUMER: consumer_requests.close_consumer,
    Type.UNSUBSCRIBE: consumer_requests.unsubscribe,
    Type.SEEK: consumer_requests.seek,
    Type.ACK: consumer_requests.acknowledge,
    Type.REDELIVER_UNACKNOWLEDGED_MESSAGES: consumer_requests.redeliver,
    Type.GET_LAST_MESSAGE_ID: consumer_requests.last_message_id,
    Type.CONSUMER_STATS: consumer_requests.consumer_stats,
    Type.GET_SCHEMA: schema_requests.get_schema,
    Type.GET_OR_CREATE_SCHEMA: schema_requests.get_or_create_schema,
    **{kind: refuse_transaction(kind) for kind in TRANSACTION_COMMANDS},
}
"""The handler of each command that clients send."""
