"""The stored records of a topic and its cursors in Pulsar's JSON: its ManagedLedgerInfo."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from mledger.admin.internal_stats import Offload, offload_of
from mledger.errors import TopicNotFound
from mledger.metastore.records.codec import decode_managed_cursor_info, decode_managed_ledger_info
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo, ManagedLedgerInfo
from mledger.metastore.runtime.times import time_text
from mledger.metastore.store import MetadataReader, Stat

InfoValue: TypeAlias = str | int | float | bool | tuple["InfoValue", ...] | Mapping[str, "InfoValue"] | None
InfoObject: TypeAlias = dict[str, InfoValue]


async def read_info(reader: MetadataReader, topic: TopicName) -> InfoObject:
    """The records of a topic and its cursors as they are stored, without values that they do not have.

    Raises:
        TopicNotFound: there is no such topic.
        RecordError: a record cannot be read.
        MetadataError: the store does not answer.
    """
    path = topic.managed_ledger_path
    (node,), (children,) = await reader.get_many([path]), await reader.children_many([path])
    if node is None:
        raise TopicNotFound(f"{topic} does not exist")
    info = decode_managed_ledger_info(node.data, path).value
    names = sorted(children or ())
    nodes = await reader.get_many([f"{path}/{name}" for name in names])
    cursors = {
        name: info_cursor(each.stat, decode_managed_cursor_info(each.data, f"{path}/{name}").value)
        for name, each in zip(names, nodes, strict=True)
        if each is not None
    }
    ledgers = [info_ledger(each, offload_of(each, path)) for each in info.ledgers]
    return {
        key: _known(each) for key, each in info_object(node.stat, info, ledgers, cursors).items() if each is not None
    }


def info_object(
    stat: Stat, info: ManagedLedgerInfo, ledgers: Sequence[InfoObject], cursors: Mapping[str, InfoObject]
) -> InfoObject:
    """The record of a topic, with null for values that it does not have; cursors by the names of their nodes."""
    return {
        "version": stat.version,
        "creationDate": time_text(stat.created_ms),
        "modificationDate": time_text(stat.modified_ms),
        "ledgers": tuple(ledgers),
        "terminatedPosition": _position(info.terminated),
        "cursors": dict(cursors),
        "properties": dict(info.properties) or None,
    }


def info_ledger(info: LedgerInfo, offload: Offload) -> InfoObject:
    """A ledger of the record."""
    zeros = info.zeros
    return {
        "ledgerId": info.ledger_id,
        "entries": info.entries if info.entries or "entries" in zeros else None,
        "size": info.size if info.size or "size" in zeros else None,
        "timestamp": info.timestamp if info.timestamp or "timestamp" in zeros else None,
        "isOffloaded": offload.complete,
        "offloadedContextUuid": str(offload.uuid) if offload.uuid else None,
    }


def info_cursor(stat: Stat, record: ManagedCursorInfo | None) -> InfoObject:
    """The record of a cursor; None for one that cannot be read."""
    return {
        "version": stat.version,
        "creationDate": time_text(stat.created_ms),
        "modificationDate": time_text(stat.modified_ms),
        "cursorsLedgerId": record.cursors_ledger_id if record else None,
        "markDelete": _position(record.mark_delete) if record else None,
        "individualDeletedMessages": tuple(
            {"from": _position(each.lower), "to": _position(each.upper)} for each in record.ranges
        )
        if record and record.ranges
        else None,
        "properties": dict(record.properties) or None if record else None,
    }


def _position(position: Position | None) -> InfoObject | None:
    return None if position is None else {"ledgerId": position.ledger_id, "entryId": position.entry_id}


def _known(value: InfoValue) -> InfoValue:
    """The value without null in its objects, as Pulsar answers over HTTP."""
    if isinstance(value, Mapping):
        return {key: _known(each) for key, each in value.items() if each is not None}
    return tuple(map(_known, value)) if isinstance(value, tuple) else value
