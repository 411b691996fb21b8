"""Figures of a topic that need a read: when it was created, and when its last and its earliest messages were published.

Times are milliseconds since 1970. As in Pulsar the earliest of a backlog is read only where a request wants it.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mledger.broker.topics.broker_topic import BrokerTopic
from mledger.cursors.cursor import Cursor
from mledger.cursors.entry_time import publish_time
from mledger.cursors.positions import next_valid
from mledger.errors import InvalidPosition
from mledger.metastore.errors import RecordError
from mledger.metastore.records.position import Position
from mledger.metastore.store import MetadataReader

LAST, CREATED = "lastPublishTimeStamp", "topicCreationTimeStamp"
EARLIEST_OF_TOPIC, EARLIEST = "earliestMsgPublishTimeInBacklogs", "earliestMsgPublishTimeInBacklog"
NOT_ASKED = 0
NO_BACKLOG = -1


async def topic_times(store: MetadataReader, topic: BrokerTopic) -> Mapping[str, int]:
    """When the topic was created, and when messages were stored in it last; 0 where that is not known. MledgerError."""
    stat = await store.exists(topic.name.managed_ledger_path)
    if not topic.last_published_ms:  # nothing was stored since it was opened
        ledgers = topic.managed_ledger.ledger_list
        count = ledgers.total_entries
        read_ms = await _published(topic, ledgers.entry_at(count - 1)) if count else 0
        topic.last_published_ms = topic.last_published_ms or read_ms
    return {LAST: topic.last_published_ms, CREATED: 0 if stat is None else stat.created_ms}


async def add_earliest_times(topic: BrokerTopic, figures: dict[str, Any], *, wanted: bool) -> None:
    """Add when the earliest message of each backlog was published, to the figures of the topic. MledgerError."""
    open_here = {each.name: each.cursor for each in topic.subscriptions}
    cursors = {**topic.managed_ledger.open_cursors, **open_here}
    for name, each in figures["subscriptions"].items():
        cursor = cursors.get(name)
        each[EARLIEST] = await _earliest(topic, cursor) if wanted and cursor is not None else NOT_ASKED
    slowest = topic.managed_ledger.backlog_quotas.slowest
    figures[EARLIEST_OF_TOPIC] = NOT_ASKED
    if wanted and figures["backlogSize"] and slowest is not None:
        figures[EARLIEST_OF_TOPIC] = await _after(topic, slowest.mark_delete)


async def _earliest(topic: BrokerTopic, cursor: Cursor) -> int:
    return await _after(topic, cursor.mark_delete) if cursor.backlog else NO_BACKLOG


async def _after(topic: BrokerTopic, position: Position) -> int:
    """When the first entry after a position was published."""
    ledgers = topic.managed_ledger.ledger_list
    first = next_valid(ledgers, position)
    return await _published(topic, first) if ledgers.exists(first) else NO_BACKLOG


async def _published(topic: BrokerTopic, position: Position) -> int:
    """When an entry was published; 0 if it was trimmed meanwhile, or does not say it."""
    with suppress(RecordError, InvalidPosition):
        return publish_time((await topic.managed_ledger.read_entry(position)).payload)
    return 0
