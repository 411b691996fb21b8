"""A topic's figures under the names of Pulsar's admin API.

There are only figures that this broker keeps. Counters begin when the topic is opened here; rates per
second are those of the last sample, of clients that are connected.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.backlog_figures import plan_backlog_age, plan_quota_limits
from mledger.broker.topics.backlog_limits import plan_quotas
from mledger.broker.topics.broker_topic import BrokerTopic
from mledger.broker.topics.client_rates import rates_in, rates_out
from mledger.broker.topics.producers.access import AccessMode
from mledger.broker.topics.producers.producer import Producer
from mledger.broker.topics.served_topic import ServedTopic
from mledger.broker.topics.subscriptions.consumer import Consumer, kind_name
from mledger.broker.topics.subscriptions.replicated_mark import is_marked
from mledger.broker.topics.subscriptions.subscription import BrokerSubscription
from mledger.cursors.backlog import count_between
from mledger.cursors.cursor import Cursor
from mledger.cursors.deduplication import DEDUPLICATION
from mledger.ledgers.ledger_list import LedgerList
from mledger.ledgers.offload import is_offloaded
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.times import utc_text, wall_clock_ms
from mledger.topics.state import TopicState

Figures = dict[str, Any]

ACCESS_MODES = {
    AccessMode.SHARED: "Shared",
    AccessMode.EXCLUSIVE: "Exclusive",
    AccessMode.WAIT_FOR_EXCLUSIVE: "WaitForExclusive",
    AccessMode.EXCLUSIVE_WITH_FENCING: "ExclusiveWithFencing",
}
STATES = {
    TopicState.OPEN: "LedgerOpened",
    TopicState.TERMINATED: "Terminated",
    TopicState.FENCED: "Fenced",
    TopicState.CLOSED: "Closed",
}


NO_TYPE = "None"
"""The type of a subscription without consumers."""
AGE, OLDEST = "oldestBacklogMessageAgeSeconds", "oldestBacklogMessageSubscriptionName"
"""How old the oldest entry of the backlog is, and whose backlog that is."""


def stats_of(topic: BrokerTopic, broker: str, settings: BrokerSettings) -> Figures:
    """The topic's producers, subscriptions and counters; `broker` is the name of the one that serves it."""
    storage, open_here = topic.managed_ledger, {each.name: each for each in topic.subscriptions}
    subscriptions = {
        name: _subscription(topic, cursor, open_here.get(name))
        for name, cursor in storage.open_cursors.items()
        if name != DEDUPLICATION
    }
    subscriptions |= {each.name: _subscription(topic, each.cursor, each) for each in open_here.values()}
    backlog, limits = storage.backlog_quotas.read(), plan_quota_limits(plan_quotas(storage.policies.service, settings))
    waiting = any(each["msgBacklog"] for each in subscriptions.values())
    age = plan_backlog_age(backlog.oldest, wall_clock_ms(), waiting=waiting)
    return {
        **rate_figures(topic),
        "backlogQuotaLimitSize": limits.size,
        "backlogQuotaLimitTime": limits.age_s,
        AGE: age.seconds,
        OLDEST: age.subscription,
        "msgInCounter": topic.messages_in,
        "bytesInCounter": topic.bytes_in,
        "msgChunkPublished": topic.chunk_published,
        "msgOutCounter": sum(each.messages_out for each in open_here.values()),
        "bytesOutCounter": sum(each.bytes_out for each in open_here.values()),
        "storageSize": storage.total_size,
        "backlogSize": backlog.size,
        "publishers": [publisher_figures(each) for each in topic.producers],
        "subscriptions": dict(sorted(subscriptions.items())),
        "deduplicationStatus": "Disabled" if topic.deduplication is None else "Enabled",
        "ownerBroker": broker,
    }


def internal_stats_of(topic: BrokerTopic) -> Figures:
    """The ledgers and cursors as they are in this broker's memory."""
    storage, open_here = topic.managed_ledger, {each.name: each for each in topic.subscriptions}
    ledgers = storage.ledger_list.live_infos
    created_ms = storage.current_ledger_created_ms
    return {
        "entriesAddedCounter": storage.entries_added,
        "lastLedgerCreatedTimestamp": None if created_ms is None else utc_text(created_ms),
        "numberOfEntries": storage.number_of_entries,
        "totalSize": storage.total_size,
        "currentLedgerEntries": ledgers[-1].entries if ledgers else 0,
        "currentLedgerSize": ledgers[-1].size if ledgers else 0,
        "lastConfirmedEntry": str(storage.last_confirmed),
        "state": STATES[storage.state],
        "ledgers": [
            {
                "ledgerId": each.ledger_id,
                "entries": each.entries,
                "size": each.size,
                "offloaded": is_offloaded(each),
            }
            for each in ledgers
        ],
        "cursors": {
            name: _cursor(cursor, open_here.get(name), storage.ledger_list)
            for name, cursor in sorted(storage.open_cursors.items())
        },
    }


def entries_before_read(topic: BrokerTopic) -> dict[str, int]:
    """How many entries of each subscription are between where all is acknowledged and where it reads."""
    storage, open_here = topic.managed_ledger, {each.name: each for each in topic.subscriptions}
    cursors = {**storage.open_cursors} | {name: each.cursor for name, each in open_here.items()}
    return {
        name: _entries_before_read(cursor, open_here.get(name), storage.ledger_list) for name, cursor in cursors.items()
    }


def rate_figures(topic: ServedTopic) -> Figures:
    """What is published and sent a second."""
    consumers = [each for subscription in topic.subscriptions for each in subscription.consumers]
    sent = rates_out(consumers)
    return {**_rates_in(topic.producers), "msgRateOut": sent.messages, "msgThroughputOut": sent.size}


def _rates_in(producers: Iterable[Producer]) -> Figures:
    found = rates_in(producers)
    return {"msgRateIn": found.messages, "msgThroughputIn": found.size, "averageMsgSize": found.average_size}


def consumer_rates(consumers: Iterable[Consumer]) -> Figures:
    """What is sent to consumers a second, and what they give back and acknowledge, together."""
    found = rates_out(consumers)
    return {
        "msgRateOut": found.messages,
        "msgThroughputOut": found.size,
        "msgRateRedeliver": found.redelivered,
        "messageAckRate": found.acked,
        "chunkedMessageRate": found.chunks,
    }


def publisher_figures(producer: Producer) -> Figures:
    """A producer of a topic."""
    return {
        **_rates_in((producer,)),
        "chunkedMessageRate": rates_in((producer,)).chunks,
        "accessMode": ACCESS_MODES[producer.request.mode],
        "producerId": producer.id,
        "producerName": producer.name,
        "address": producer.connection.address,
        "connectedSince": utc_text(producer.connected_ms),
        "clientVersion": producer.connection.client_version,
        "metadata": dict(producer.request.metadata),
    }


def _subscription(topic: BrokerTopic, cursor: Cursor, served: BrokerSubscription | None) -> Figures:
    """A subscription's figures; `served` is None until a consumer first asks for it."""
    consumers = [] if served is None else served.consumers
    active = None if served is None else served.active_consumer
    delayed = 0 if served is None else served.delayed
    counted = topic.cursor_advances.of(cursor)
    return {
        **consumer_rates(consumers),
        "msgOutCounter": 0 if served is None else served.messages_out,
        "bytesOutCounter": 0 if served is None else served.bytes_out,
        "msgBacklog": cursor.backlog,
        "backlogSize": cursor.backlog_size,
        "unackedMessages": sum(each.dispatch.unacked for each in consumers),
        "msgDelayed": delayed,
        "msgInReplay": 0 if served is None or served.tracked is None else served.tracked.replay_count,
        "msgBacklogNoDelayed": cursor.backlog - delayed,
        "type": NO_TYPE if served is None or served.kind is None else kind_name(served.kind),
        "activeConsumerName": None if active is None else active.name,
        "msgRateExpired": counted.rates.per_second[0],
        "totalMsgExpired": counted.expired,
        "lastExpireTimestamp": counted.expiry_ms,
        "lastConsumedFlowTimestamp": 0 if served is None else served.last_flow_ms,
        "lastConsumedTimestamp": max((each.last_consumed_ms for each in consumers), default=0),
        "lastAckedTimestamp": max((each.last_acked_ms for each in consumers), default=0),
        "lastMarkDeleteAdvancedTimestamp": counted.advanced_ms,
        "consumers": [consumer_figures(each) for each in consumers],
        "isDurable": cursor.durable,
        "isReplicated": is_marked(cursor.properties),
        "nonContiguousDeletedMessagesRanges": cursor.acks.range_count,
        "subscriptionProperties": cursor.cursor_properties,
    }


def consumer_figures(consumer: Consumer) -> Figures:
    """A consumer of a subscription."""
    dispatch = consumer.dispatch
    return {
        **consumer_rates((consumer,)),
        "msgOutCounter": consumer.messages_out,
        "bytesOutCounter": consumer.bytes_out,
        "consumerName": consumer.name,
        "availablePermits": dispatch.permits,
        "unackedMessages": dispatch.unacked,
        "blockedConsumerOnUnackedMsgs": dispatch.blocked,
        "address": consumer.connection.address,
        "connectedSince": utc_text(consumer.connected_ms),
        "lastAckedTimestamp": consumer.last_acked_ms,
        "lastConsumedTimestamp": consumer.last_consumed_ms,
        "firstMessagesSentTimestamp": consumer.first_sent_ms,
        "lastConsumedFlowTimestamp": consumer.last_flow_ms,
        "firstConsumedFlowTimestamp": consumer.first_flow_ms,
        "clientVersion": consumer.connection.client_version,
        "keyHashRanges": [f"[{each.start}, {each.end}]" for each in dispatch.key_ranges],
        "metadata": dict(consumer.request.metadata),
    }


def _cursor(cursor: Cursor, served: BrokerSubscription | None, ledgers: LedgerList) -> Mapping[str, Any]:
    return {
        "state": "NoLedger" if cursor.cursor_ledger < 0 else "Open",
        "markDeletePosition": str(cursor.mark_delete),
        "readPosition": str(_read_position(cursor, served)),
        "numberOfEntriesSinceFirstNotAckedMessage": _entries_before_read(cursor, served, ledgers),
        "cursorLedger": cursor.cursor_ledger,
        "individuallyDeletedMessages": cursor.individually_deleted,
        "totalNonContiguousDeletedMessagesRange": cursor.acks.range_count,
        "active": cursor.active,
        "properties": cursor.properties,
    }


def _read_position(cursor: Cursor, served: BrokerSubscription | None) -> Position:
    return cursor.read_position if served is None else served.read_position


def _entries_before_read(cursor: Cursor, served: BrokerSubscription | None, ledgers: LedgerList) -> int:
    return count_between(ledgers, cursor.mark_delete, _read_position(cursor, served))
