"""Partitioned metadata, lookups, and the topics of a namespace."""

from functools import partial

from mledger.broker.connections.connection import BrokerConnection
from mledger.broker.lookup.topic_list import topics_hash
from mledger.broker.protocol import answers
from mledger.broker.refusals import BrokerRefusal, refusal_of
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.paths import TopicName
from mledger.pb import PulsarApi_pb2 as pb


async def partitions(connection: BrokerConnection, command: pb.CommandPartitionedTopicMetadata) -> None:
    """Answer how many partitions a topic has."""
    try:
        topic, create = TopicName.parse(command.topic), command.metadata_auto_creation_enabled
        found = await connection.broker.lookup.partitions(topic, create=create)
    except MledgerError as error:
        refusal = refusal_of(error)
        connection.write(answers.partitioned_metadata_failed(command.request_id, refusal.code, str(refusal)))
    else:
        connection.write(answers.partitioned_metadata(command.request_id, found))


async def lookup(connection: BrokerConnection, command: pb.CommandLookupTopic) -> None:
    """Answer which broker serves a topic, or which one to ask because it will be the owner."""
    try:
        topic = TopicName.parse(command.topic)
        found = await connection.broker.owners.find(topic, authoritative=command.authoritative)
    except MledgerError as error:
        refusal = refusal_of(error)
        connection.write(answers.lookup_failed(command.request_id, refusal.code, str(refusal)))
        return
    answer = partial(answers.lookup_redirect, authoritative=True) if found.redirect else answers.lookup_connect
    connection.write(answer(command.request_id, found.url, tls_url=found.url_tls))


async def topics_of_namespace(connection: BrokerConnection, command: pb.CommandGetTopicsOfNamespace) -> None:
    """Answer with a namespace's topics; the client applies its pattern to them."""
    topics: list[str] = []
    if command.mode != pb.CommandGetTopicsOfNamespace.NON_PERSISTENT:
        parts = command.namespace.split("/")
        if len(parts) not in (2, 3) or not all(parts):
            raise BrokerRefusal(
                pb.InvalidTopicName, f"{command.namespace!r} is not a namespace's name: write it as tenant/namespace"
            )
        topics = await connection.broker.lookup.topics(command.namespace)
    found = topics_hash(topics)
    changed = found != command.topics_hash
    connection.write(
        answers.topics_of_namespace(command.request_id, topics if changed else (), topics_hash=found, changed=changed)
    )
