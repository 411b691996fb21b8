"""Looks again, once a minute, at what the roles of open producers, consumers and watchers may do: they can lose it.

A producer or a consumer whose role has lost the right is closed, and its client told: it tries again, and hears why it
is refused. A watcher of topics is told nothing until its role has the right again: no command of the broker ends one.
While it is not known what a namespace permits, its clients stay.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.connections.topic_list_watcher import TopicListWatcher
from mledger.broker.periodic_check import PeriodicCheck
from mledger.broker.security.permissions import Permissions, TopicOperation
from mledger.broker.topics.producers.producer import Producer
from mledger.broker.topics.subscriptions.consumer import Consumer
from mledger.metastore.runtime.logs.loggers import get_logger

if TYPE_CHECKING:
    from mledger.broker.connections.connection import BrokerConnection

    OpenClient: TypeAlias = tuple[BrokerConnection, Producer | Consumer | TopicListWatcher]

log = get_logger(__name__)

EVERY_S = 60.0
IN_A_ROW = 50


class PermissionCheck:
    """Looks at the clients of a broker, as `check`."""

    def __init__(self, broker: ServedBroker) -> None:
        self._broker = broker
        self.check = PeriodicCheck("permissions of clients", lambda: EVERY_S, self.look)

    async def look(self, _: float) -> None:
        """Close, or tell no more, those whose roles have lost the right; those of a namespace at a time."""
        clients: dict[str, list[OpenClient]] = defaultdict(list)
        for connection in self._broker.connections:
            for producer in connection.producers.values():
                clients[producer.topic.name.namespace_name].append((connection, producer))
            for consumer in connection.consumers.values():
                clients[consumer.subscription.topic.name.namespace_name].append((connection, consumer))
            for watcher in connection.watchers.values():
                clients[watcher.namespace].append((connection, watcher))
        for namespace, found in clients.items():
            await self.check.attempt("permissions_not_checked", self._look_at(namespace, found), namespace=namespace)

    async def _look_at(self, namespace: str, clients: "Sequence[OpenClient]") -> None:
        permissions = await self._broker.security.permissions(namespace)
        for number, (connection, client) in enumerate(clients, 1):
            if number % IN_A_ROW == 0:
                await asyncio.sleep(0)
            if isinstance(client, TopicListWatcher):
                self._look_at_watcher(connection, client, permissions)
            elif client.closed:
                continue
            elif isinstance(client, Producer):
                self._look_at_producer(connection, client, permissions)
            else:
                self._look_at_consumer(connection, client, permissions)

    def _look_at_watcher(
        self, connection: "BrokerConnection", watcher: TopicListWatcher, permissions: Permissions
    ) -> None:
        role = self._broker.security.refused_list(connection.principal, permissions)
        if role is not None and watcher.allowed:
            log.warning("watcher_lost_permission", client=connection.address, role=role, namespace=watcher.namespace)
        watcher.allow(role is None)

    def _look_at_producer(self, connection: "BrokerConnection", producer: Producer, permissions: Permissions) -> None:
        topic = producer.topic
        role = self._broker.security.refused(connection.principal, TopicOperation.PRODUCE, topic.name, permissions)
        if role is not None:
            log.warning("producer_lost_permission", client=connection.address, role=role, topic=topic.name)
            topic.producers.close_those(lambda each: each is producer)

    def _look_at_consumer(self, connection: "BrokerConnection", consumer: Consumer, permissions: Permissions) -> None:
        subscription, topic = consumer.subscription, consumer.subscription.topic.name
        role = self._broker.security.refused(
            connection.principal, TopicOperation.CONSUME, topic, permissions, subscription.name
        )
        if role is not None:
            client = connection.address
            log.warning(
                "consumer_lost_permission", client=client, role=role, topic=topic, subscription=subscription.name
            )
            subscription.close_consumer(consumer)
            connection.disconnect_consumer(consumer)
