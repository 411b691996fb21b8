"""Partitioned metadata, lookups, the topics of a namespace and watchers of them."""

import contextlib
from collections.abc import Coroutine
from functools import partial
from typing import Any

from mledger.admin.system_topics import is_coordinators_assignment
from mledger.broker.client_events import LookupAnswered, PartitionsAnswered, RequestAllowed
from mledger.broker.connections.connection import BrokerConnection
from mledger.broker.connections.topic_list_watcher import TopicListWatcher
from mledger.broker.lookup.topic_list import TopicsMode, topics_hash
from mledger.broker.lookup.topic_lookup import check_listener
from mledger.broker.lookup.topics_pattern import TopicsPattern, UnsupportedPattern, matching
from mledger.broker.protocol import answers
from mledger.broker.refusals import NO_TRANSACTIONS, BrokerRefusal, refusal_of
from mledger.broker.security.permissions import TopicOperation
from mledger.broker.settings import BrokerSettings
from mledger.errors import NamespaceNotFound, TopicNotFound
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.paths import TopicName
from mledger.pb import PulsarApi_pb2 as pb


async def allow_lookup(connection: BrokerConnection, topic: TopicName) -> None:
    """Say that the client may look the topic up. NotAuthorized if it may not."""
    await connection.allow(TopicOperation.LOOKUP, topic)
    role = connection.principal.role
    connection.broker.events(RequestAllowed(topic.managed_ledger_name, connection.address, "lookup", role))


async def partitions(connection: BrokerConnection, command: pb.CommandPartitionedTopicMetadata) -> None:
    """Answer how many partitions a topic has."""
    try:
        topic, create = TopicName.parse_served(command.topic), command.metadata_auto_creation_enabled
        async with connection.lookups.turn():
            await allow_lookup(connection, topic)
            found = await _partitions(connection, topic, create=create)
    except MledgerError as error:
        refusal = refusal_of(error)
        connection.write(answers.partitioned_metadata_failed(command.request_id, refusal.code, str(refusal)))
    else:
        connection.broker.events(PartitionsAnswered(topic.managed_ledger_name, connection.address, found))
        connection.write(answers.partitioned_metadata(command.request_id, found))


async def _partitions(connection: BrokerConnection, topic: TopicName, *, create: bool) -> int:
    """How many there are. Clients that are to use transactions ask first, and say by 0 that the broker has none."""
    try:
        return await connection.broker.lookup.partitions(topic, create=create)
    except (NamespaceNotFound, TopicNotFound):
        if is_coordinators_assignment(topic):
            return 0
        raise


async def lookup(connection: BrokerConnection, command: pb.CommandLookupTopic) -> None:
    """Answer which broker serves a topic, or which one to ask because it will be the owner."""
    try:
        topic = TopicName.parse_served(command.topic)
        async with connection.lookups.turn():
            await allow_lookup(connection, topic)
            check_listener(command.advertised_listener_name)
            found = await connection.broker.owners.find(topic, authoritative=command.authoritative)
    except NamespaceNotFound as error:
        code, reason = pb.MetadataError, str(error)  # as Pulsar, here only
        if is_coordinators_assignment(topic):
            code, reason = pb.NotAllowedError, NO_TRANSACTIONS
        connection.write(answers.lookup_failed(command.request_id, code, reason))
        return
    except MledgerError as error:
        refusal = refusal_of(error)
        connection.write(answers.lookup_failed(command.request_id, refusal.code, str(refusal)))
        return
    events = connection.broker.events
    events(LookupAnswered(topic.managed_ledger_name, connection.address, found.urls.any, found.redirect))
    if found.redirect:
        answer = partial(answers.lookup_redirect, authoritative=True)
    else:
        answer = partial(answers.lookup_connect, through_service_url=connection.broker.alone)
    connection.write(answer(command.request_id, found.urls.plain, tls_url=found.urls.tls))


async def topics_of_namespace(connection: BrokerConnection, command: pb.CommandGetTopicsOfNamespace) -> None:
    """Answer with a namespace's topics; a pattern that this broker does not evaluate is left to the client."""
    async with connection.lookups.turn():
        await _list_topics(connection, command)


async def _list_topics(connection: BrokerConnection, command: pb.CommandGetTopicsOfNamespace) -> None:
    broker, pattern = connection.broker, None
    await broker.security.allow_namespace(connection.principal, _namespace(command.namespace))
    topics = await broker.topics_of(_namespace(command.namespace), TopicsMode(command.mode))
    if command.HasField("topics_pattern"):
        with contextlib.suppress(BrokerRefusal):
            pattern = _pattern(command.topics_pattern, broker.settings)
    if pattern is not None:
        topics = await matching(pattern, topics)
    found = topics_hash(topics)
    changed = found != command.topics_hash
    connection.write(
        answers.topics_of_namespace(
            command.request_id,
            topics if changed else (),
            topics_hash=found,
            filtered=pattern is not None,
            changed=changed,
        )
    )


def watch_topics(connection: BrokerConnection, command: pb.CommandWatchTopicList) -> Coroutine[Any, Any, None]:
    """Answer with the topics that match a pattern, and tell the client when some come or go.

    A second request for the same watcher gets the answer again: clients compare hashes so.
    """
    return connection.opening_watchers.open(command.watcher_id, lambda: _watch_topics(connection, command))


async def _watch_topics(connection: BrokerConnection, command: pb.CommandWatchTopicList) -> None:
    settings, number = connection.broker.settings, command.watcher_id
    if not settings.topic_watchers:
        raise BrokerRefusal(pb.NotAllowedError, "this broker watches no topics (enableBrokerTopicListWatcher=false)")
    watcher = connection.watchers.get(number)
    namespace = _namespace(command.namespace) if watcher is None else watcher.namespace
    await connection.broker.security.allow_namespace(connection.principal, namespace)
    if watcher is None:
        pattern = _pattern(command.topics_pattern, settings)
        watch, write = connection.broker.topic_watch, connection.write
        watcher = TopicListWatcher(number, namespace, pattern, watch, write)
        await watcher.begin()
        connection.watchers[number] = watcher
    watcher.allow(True)
    found = topics_hash(watcher.matching)
    topics = () if found == command.topics_hash else watcher.matching
    connection.write(answers.watch_success(command.request_id, number, topics, found))
    watcher.run()


def close_watcher(connection: BrokerConnection, command: pb.CommandWatchTopicListClose) -> None:
    """Watch for a client no longer."""
    connection.opening_watchers.give_up(command.watcher_id)
    watcher = connection.watchers.pop(command.watcher_id, None)
    if watcher is not None:
        watcher.end()
    connection.succeed(command.request_id)


def _namespace(name: str) -> str:
    """The name of a namespace. Raises BrokerRefusal for what is none."""
    parts = name.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise BrokerRefusal(pb.InvalidTopicName, f"{name!r} is not a namespace's name: write it as tenant/namespace")
    return name


def _pattern(text: str, settings: BrokerSettings) -> TopicsPattern:
    """A client's pattern. Raises BrokerRefusal if this broker does not evaluate it."""
    if not settings.evaluate_patterns:
        raise BrokerRefusal(
            pb.NotAllowedError,
            "this broker evaluates no patterns (enableBrokerSideSubscriptionPatternEvaluation=false)",
        )
    if len(text) > settings.longest_pattern:
        raise BrokerRefusal(
            pb.NotAllowedError,
            f"the pattern has {len(text)} characters, and subscriptionPatternMaxLength is {settings.longest_pattern}",
        )
    try:
        return TopicsPattern(text)
    except UnsupportedPattern as error:
        raise BrokerRefusal(
            pb.NotAllowedError, f"this broker does not evaluate the pattern {text!r}: {error}"
        ) from None
