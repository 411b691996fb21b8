"""`mledger topics stats|subscriptions|consumers|peek`: what the broker that serves a topic has in memory.

The keys are those of Pulsar's admin API, and Java's brokers answer as well as ours.
"""

from collections.abc import Mapping
from typing import Any

import click

from mledger.admin.broker_access import BrokerAccess
from mledger.admin.inspect import Inspector
from mledger.admin.served_topics import acknowledged_in, plan_backlog, read_served
from mledger.cli.shared.broker_options import broker_options
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.names import complete_cursors, topic_argument
from mledger.cli.shared.output.entries import MessageWriter
from mledger.cli.shared.output.results import OutputRecord, OutputTable, columns, fields
from mledger.cli.shared.read_only import read_only_cluster
from mledger.errors import CursorNotFound
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.url import open_reader

PUBLISHERS = ("producerName", "accessMode", "msgRateIn", "address", "connectedSince", "clientVersion")
SUBSCRIPTIONS = (
    "type",
    "msgBacklog",
    "backlogSize",
    "unackedMessages",
    "msgOutCounter",
    "msgRateOut",
    "messageAckRate",
    "totalMsgExpired",
    "activeConsumerName",
)
CONSUMERS = (
    "consumerName",
    "availablePermits",
    "unackedMessages",
    "blockedConsumerOnUnackedMsgs",
    "msgOutCounter",
    "msgRateOut",
    "messageAckRate",
    "address",
    "connectedSince",
    "clientVersion",
)


@click.command(epilog="Example: mledger topics stats orders --output json")
@topic_argument
@broker_options
@common_options
@click.pass_obj
def stats(context: CommandContext, topic: str, access: BrokerAccess) -> None:
    """Show the live figures of TOPIC: its producers, subscriptions and counters; the JSON is the broker's."""
    found = context.run(_stats(context.url, topic, access))
    if context.output.for_programs:
        context.output.record(OutputRecord(fields(**found)))
        return
    tables = ("publishers", "subscriptions", "replication")
    facts = {key: value for key, value in found.items() if key not in tables and value not in ({}, [], None)}
    publishers = tuple(tuple(each.get(key) for key in PUBLISHERS) for each in found.get("publishers", ()))
    context.output.record(
        OutputRecord(
            fields(**facts),
            (OutputTable("publishers", columns(*PUBLISHERS), publishers), _subscriptions(found)),
        )
    )


@click.command(epilog="Example: mledger topics subscriptions orders")
@topic_argument
@broker_options
@common_options
@click.pass_obj
def subscriptions(context: CommandContext, topic: str, access: BrokerAccess) -> None:
    """List the subscriptions of TOPIC with their live backlogs, as its broker has them in memory."""
    context.output.table(_subscriptions(context.run(_stats(context.url, topic, access))))


@click.command(epilog="Example: mledger topics consumers orders --subscription billing")
@topic_argument
@click.option("--subscription", metavar="NAME", help="Only the consumers of this subscription.")
@broker_options
@common_options
@click.pass_obj
def consumers(context: CommandContext, topic: str, subscription: str | None, access: BrokerAccess) -> None:
    """List the consumers of TOPIC: what each may still be sent, and what it has not acknowledged."""
    found = context.run(_stats(context.url, topic, access))["subscriptions"]
    if subscription is not None:
        found = {subscription: _of(found, subscription, topic)}
    rows = tuple(
        (name, *(consumer.get(key) for key in CONSUMERS))
        for name, each in found.items()
        for consumer in each.get("consumers", ())
    )
    context.output.table(OutputTable("consumers", columns("subscription", *CONSUMERS), rows))


@click.command(epilog="Example: mledger topics peek orders billing --count 3")
@topic_argument
@click.argument("subscription", shell_complete=complete_cursors)
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="The maximum number of entries.")
@click.option("--decode", is_flag=True, help="For people: one line per message, with key, properties and producer.")
@broker_options
@common_options
@click.pass_obj
def peek(
    context: CommandContext, topic: str, subscription: str, count: int, decode: bool, access: BrokerAccess
) -> None:
    """Write the first messages that SUBSCRIPTION of TOPIC has not acknowledged, and acknowledge none.

    What is acknowledged is what the broker has in memory. An entry is a batch of messages: one that
    is partly acknowledged is shown whole.
    """
    writer = MessageWriter(context.output, decoded=decode)
    try:
        context.run(_peek(context.url, topic, subscription, count, writer, access))
    except (KeyboardInterrupt, MledgerError):
        writer.end(failed=True)
        raise
    writer.end()


def _subscriptions(found: Mapping[str, Any]) -> OutputTable:
    rows = tuple(
        (name, *(each.get(key) for key in SUBSCRIPTIONS), len(each.get("consumers", ())))
        for name, each in found.get("subscriptions", {}).items()
    )
    return OutputTable("subscriptions", columns("subscription", *SUBSCRIPTIONS, "consumers"), rows)


def _of(found: Mapping[str, Any], subscription: str, topic: str) -> Mapping[str, Any]:
    if subscription not in found:
        raise CursorNotFound(f"{TopicName.parse_served(topic)} has no subscription {subscription}")
    described: Mapping[str, Any] = found[subscription]
    return described


async def _stats(url: str, topic: str, access: BrokerAccess) -> dict[str, Any]:
    async with await open_reader(url) as reader:
        return await read_served(reader, TopicName.parse_served(topic), "stats", access)


async def _peek(
    url: str, topic: str, subscription: str, count: int, writer: MessageWriter, access: BrokerAccess
) -> None:
    name = TopicName.parse(topic)
    async with read_only_cluster(url) as cluster:
        found = await read_served(cluster.metadata, name, "internalStats", access)
        cursor = _of(found["cursors"], subscription, topic)
        mark_delete = Position.parse(cursor["markDeletePosition"])
        acknowledged = acknowledged_in(cursor["individuallyDeletedMessages"])
        first, last = (
            Position(mark_delete.ledger_id, mark_delete.entry_id + 1),
            Position.parse(found["lastConfirmedEntry"]),
        )
        left = count
        async for batch in Inspector(cluster.metadata, cluster.bookies).read(str(name), first, last):
            seen = {each.position: each.payload for each in batch}
            for position in plan_backlog(list(seen), mark_delete, acknowledged):
                writer.write(str(position), seen[position])
                left -= 1
                if not left:
                    return
