"""`mledger topics info-internal|stats-internal`: the same output as `pulsar-admin`, without a broker.

The JSON has Pulsar's names and structure. Values that exist only in a broker's memory are null.
"""

from collections.abc import Mapping

import click

from mledger.admin.internal_info import info_cursor, info_ledger, info_object
from mledger.admin.internal_stats import CursorInternals, LedgerStats, OtherLedger, TopicInternals, read_internals
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.names import topic_argument
from mledger.cli.shared.output.node_text import plain
from mledger.cli.shared.output.results import OutputColumn, OutputRecord, OutputTable, Value, columns, fields, pairs
from mledger.cli.shared.read_only import read_only_cluster
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState
from mledger.metastore.records.paths import TopicName
from mledger.metastore.runtime.times import time_text

INFO_LEDGERS = columns("ledgerId", "entries", "size", "timestamp", "isOffloaded", "offloadedContextUuid")
INFO_CURSORS = columns("cursor", "version", "cursorsLedgerId", "markDelete", "creationDate", "modificationDate")
STATS_LEDGERS = columns("ledgerId", "entries", "size", "offloaded", "underReplicated")
STATS_CURSORS = columns(
    "cursor",
    "markDeletePosition",
    "readPosition",
    "cursorLedger",
    "cursorLedgerLastEntry",
    "individuallyDeletedMessages",
)


@click.command("info-internal", epilog="Example: mledger topics info-internal orders --output json")
@topic_argument
@common_options
@click.pass_obj
def info_internal(context: CommandContext, topic: str) -> None:
    """Show the stored records of TOPIC and its cursors; the JSON is that of `pulsar-admin`."""
    found = context.run(_read(context.url, topic))
    shown = info_json(found)
    if context.output.for_programs:
        context.output.record(OutputRecord(fields(**shown)))
        return
    facts = {key: value for key, value in shown.items() if key not in ("ledgers", "cursors")}
    context.output.record(
        OutputRecord(
            fields(**facts),
            (
                _rows("ledgers", INFO_LEDGERS, shown["ledgers"]),
                _named_rows("cursors", INFO_CURSORS, shown["cursors"]),
            ),
        )
    )


@click.command("stats-internal", epilog="Example: mledger topics stats-internal orders --output json")
@topic_argument
@click.option("--with-metadata", "-m", is_flag=True, help="Include BookKeeper's metadata of each ledger.")
@common_options
@click.pass_obj
def stats_internal(context: CommandContext, topic: str, with_metadata: bool) -> None:
    """Show TOPIC's ledgers and cursors as an open would find them; the JSON is that of `pulsar-admin`.

    Values that exist only in the memory of the owning broker are null: counters, states, waiting
    reads.
    """
    found = context.run(_read(context.url, topic))
    shown = stats_json(found, with_metadata=with_metadata)
    if context.output.for_programs:
        context.output.record(OutputRecord(fields(**shown)))
        return
    tables = ("ledgers", "cursors", "schemaLedgers")
    ledger_columns = (*STATS_LEDGERS, *(columns("metadata") if with_metadata else ()))
    context.output.record(
        OutputRecord(
            fields(**{key: value for key, value in shown.items() if key not in tables}),
            (
                _rows("ledgers", ledger_columns, shown["ledgers"]),
                _named_rows("cursors", STATS_CURSORS, shown["cursors"]),
                _rows("schemaLedgers", ledger_columns, shown["schemaLedgers"]),
            ),
        )
    )


def info_json(found: TopicInternals) -> dict[str, Value]:
    """The records as Pulsar's ManagedLedgerInfo, with null for values that a record does not have."""
    ledgers = [info_ledger(each.info, each.offload) for each in found.ledgers]
    cursors = {each.child: info_cursor(each.stat, each.found.record) for each in found.cursors}
    return info_object(found.stat, found.info, ledgers, cursors)


def stats_json(found: TopicInternals, *, with_metadata: bool) -> dict[str, Value]:
    """The statistics as Pulsar's PersistentTopicInternalStats, with null for values in a broker's memory."""
    current = found.topic.ledgers[-1] if found.topic.ledgers else None
    newest = found.ledgers[-1].metadata if found.ledgers else None
    return {
        "entriesAddedCounter": None,
        "numberOfEntries": found.topic.entries,
        "totalSize": found.topic.size,
        "currentLedgerEntries": current.entries if current else 0,
        "currentLedgerSize": current.size if current else 0,
        "lastLedgerCreatedTimestamp": _time(newest.ctime) if newest and newest.ctime > 0 else None,
        "lastLedgerCreationFailureTimestamp": None,
        "waitingCursorsCount": None,
        "pendingAddEntriesCount": None,
        "lastConfirmedEntry": str(found.topic.last_confirmed),
        "state": "Terminated" if found.topic.terminated else None,
        "ledgers": tuple(_stats_ledger(ledger, with_metadata=with_metadata) for ledger in found.ledgers),
        "cursors": {cursor.child: _stats_cursor(cursor) for cursor in found.cursors},
        "properties": pairs(found.info.properties),
        "schemaLedgers": tuple(_other(ledger, with_metadata=with_metadata) for ledger in found.schema_ledgers),
        "compactedLedger": _other(found.compacted or OtherLedger(-1, None), with_metadata=with_metadata),
    }


def _stats_ledger(ledger: LedgerStats, *, with_metadata: bool) -> dict[str, Value]:
    shown: dict[str, Value] = {
        "ledgerId": ledger.info.ledger_id,
        "entries": ledger.info.entries,
        "size": ledger.info.size,
        "offloaded": ledger.offload.complete,
        "underReplicated": ledger.under_replicated,
        "properties": pairs(ledger.info.properties) or None,
    }
    return {**shown, **_metadata(ledger.metadata)} if with_metadata else shown


def _stats_cursor(cursor: CursorInternals) -> dict[str, Value]:
    plan = cursor.found.plan
    record = cursor.found.record
    return {
        "markDeletePosition": str(plan.mark_delete) if plan else None,
        "readPosition": str(plan.read_position) if plan else None,
        "waitingReadOp": None,
        "pendingReadOps": None,
        "messagesConsumedCounter": None,
        "cursorLedger": record.cursors_ledger_id if record else None,
        "cursorLedgerLastEntry": cursor.ledger_end,
        "individuallyDeletedMessages": f"[{','.join(map(str, plan.acks.ranges()))}]" if plan else None,
        "lastLedgerSwitchTimestamp": _time(cursor.switched_ms),
        "state": None,
        "active": None,
        "numberOfEntriesSinceFirstNotAckedMessage": None,
        "totalNonContiguousDeletedMessagesRange": plan.acks.range_count if plan else None,
        "subscriptionHavePendingRead": None,
        "subscriptionHavePendingReplayRead": None,
        "properties": pairs(plan.properties) if plan else None,
    }


def _other(ledger: OtherLedger, *, with_metadata: bool) -> dict[str, Value]:
    """A ledger that is not in the list; as in Pulsar, -1 if there is none or its end is not known."""
    closed = ledger.metadata is not None and ledger.metadata.state is LedgerState.CLOSED
    shown: dict[str, Value] = {
        "ledgerId": ledger.ledger_id,
        "entries": ledger.metadata.last_entry + 1 if ledger.metadata and closed else -1,
        "size": ledger.metadata.length if ledger.metadata and closed else -1,
        "offloaded": False,
        "underReplicated": False,
    }
    return {**shown, **_metadata(ledger.metadata)} if with_metadata else shown


def _metadata(metadata: LedgerMetadata | None) -> dict[str, Value]:
    """BookKeeper's metadata by its fields, without the password."""
    if metadata is None:
        return {"metadata": None}
    value = plain(metadata)
    assert isinstance(value, Mapping)
    return {"metadata": {key: item for key, item in value.items() if key not in ("password", "c_token", "unknown")}}


def _time(ms: int | None) -> str | None:
    return None if ms is None else time_text(ms)


def _rows(key: str, shown: tuple[OutputColumn, ...], values: Value) -> OutputTable:
    assert isinstance(values, tuple)
    keys = [column.key for column in shown]
    return OutputTable(key, shown, tuple(tuple(_get(value, name) for name in keys) for value in values))


def _named_rows(key: str, shown: tuple[OutputColumn, ...], values: Value) -> OutputTable:
    assert isinstance(values, Mapping)
    named = tuple({"cursor": name, **value} for name, value in values.items() if isinstance(value, Mapping))
    return _rows(key, shown, named)


def _get(value: Value, key: str) -> Value:
    assert isinstance(value, Mapping)
    return value[key]


async def _read(url: str, topic: str) -> TopicInternals:
    async with read_only_cluster(url) as cluster:
        return await read_internals(cluster.metadata, cluster.bookies, str(TopicName.parse(topic)))
