"""Ledgers that restored records are about: what a cursor names besides its cursor ledger, and closed ones; no I/O.

If a ledger that a cursor names is gone, its name is removed.

The compacted topic's ledger is named in the position properties of compaction's cursor, the index of delayed messages
in the cursor properties of a subscription. If such a ledger is gone, a broker cannot read the topic's compacted view,
or load the index. Compaction's cursor then begins before the first entry (C12): from where it stood, the next
compaction would leave out all that the topic still has before that.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from mledger.admin.topic_plans import LEDGERS_NAMED
from mledger.admin.undo.undo_file import NodeState
from mledger.cursors.compaction import is_compaction
from mledger.cursors.positions import EARLIEST
from mledger.ledgers.ledger_list import LedgerEnd
from mledger.ledgers.orphans.pending_records import bucket_ledgers, compacted_ledgers
from mledger.ledgers.orphans.references import TOPIC_OF, named_topic, origin_of
from mledger.ledgers.shadow_topics import shadow_source
from mledger.metastore.errors import InvalidName, RecordError
from mledger.metastore.records.codec import (
    decode_managed_cursor_info,
    decode_managed_ledger_info,
    encode_managed_ledger_info,
)
from mledger.metastore.records.ledger_codec import decode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerState
from mledger.metastore.records.paths import LEDGERS, TopicName, ledger_id_from_path
from mledger.metastore.records.values import NO_CURSOR_LEDGER, LedgerInfo, ManagedCursorInfo, PositionInfo
from mledger.metastore.runtime.name_lists import shorten

Properties = tuple[tuple[str, int], ...]
CursorProperties = tuple[tuple[str, str], ...]


def ledgers_beside(path: str, record: ManagedCursorInfo, state: PositionInfo | None) -> set[int]:
    """The ledgers that the record at `path` and the state from its cursor ledger name, without the cursor ledger.

    Only compaction's cursor has a compacted ledger: what another one calls so is a client's own number.
    """
    properties = (*record.properties, *(state.properties if state is not None else ()))
    of_compaction = compacted_ledgers(properties) if is_compaction(path) else []
    return {*of_compaction, *bucket_ledgers(record.cursor_properties)}


def is_of_ledgers(path: str) -> bool:
    """Whether the node at `path` is BookKeeper's, so that it may be in another metadata store than topics."""
    return path == LEDGERS or path.startswith(f"{LEDGERS}/")


def is_closed_since(path: str, before: bytes, now: bytes) -> bool:
    """Whether the record at `path` is of a ledger that was not closed before, and is now.

    Readers were told where it ends, and only this record may name the bookies that its last entries were written back
    to. Another recovery could find another end (Q5).
    """
    try:
        ledger_id_from_path(path)
        closed = [decode_ledger_metadata(data, path).state is LedgerState.CLOSED for data in (before, now)]
    except (InvalidName, RecordError):
        return False
    return closed == [False, True]


def named_ledgers(data: bytes, path: str, *, topic: bool) -> frozenset[int]:
    """The ledgers that the record of a topic or cursor names; empty if it does not parse."""
    try:
        if topic:
            return frozenset(ledger.ledger_id for ledger in decode_managed_ledger_info(data, path).value.ledgers)
        cursor = decode_managed_cursor_info(data, path).value
    except RecordError:
        return frozenset()
    return frozenset({cursor.cursors_ledger_id, *ledgers_beside(path, cursor, None)} - {NO_CURSOR_LEDGER})


def ledgers_left(data: bytes, path: str, *, topic: bool) -> frozenset[int]:
    """The ledgers that only the record of a topic or cursor names, without the cursor ledger; a shadow has none."""
    try:
        if topic:
            info = decode_managed_ledger_info(data, path).value
            return frozenset() if shadow_source(info) else frozenset(each.ledger_id for each in info.ledgers)
        return frozenset(ledgers_beside(path, decode_managed_cursor_info(data, path).value, None))
    except RecordError:
        return frozenset()


def belongs_to(ledger_id: int, data: bytes, path: str, managed_ledger: str) -> bool:
    """Whether the metadata `data` of a ledger says, or does not deny, that the ledger is the managed ledger's.

    A cursor's properties are text that anyone may have written: what they name must say so.
    """
    try:
        metadata = decode_ledger_metadata(data, path)
    except RecordError:
        return False
    origin = origin_of(ledger_id, metadata, 0)
    if origin.component in TOPIC_OF:
        return named_topic(origin.component, metadata) == str(TopicName.of_managed_ledger(managed_ledger))
    return origin.managed_ledger in ("", managed_ledger)


def without_ledgers(topic: bytes, path: str) -> bytes:
    """The topic's record without its ledgers; RecordError."""
    stored = decode_managed_ledger_info(topic, path)
    return encode_managed_ledger_info(replace(stored.value, ledgers=()), compression=stored.compression)


def with_end(ledger: LedgerInfo, ends: Mapping[int, LedgerEnd], now_ms: int) -> LedgerInfo:
    """A listed ledger as its owner records it once it is closed, if it was open in the list and `ends` has its end.

    The command that is undone closed it when it opened the topic, and then dropped it from the list.
    """
    end = ends.get(ledger.ledger_id)
    if ledger.timestamp or end is None or not end.entries:
        return ledger
    return dataclasses.replace(ledger, entries=end.entries, size=end.size, timestamp=now_ms)


def names_another(cursor: bytes, wanted: ManagedCursorInfo, path: str) -> bool:
    """Whether a cursor's record equals `wanted` except for the cursor ledger that it names."""
    try:
        record = decode_managed_cursor_info(cursor, path).value
    except RecordError:
        return False
    named = record.cursors_ledger_id != NO_CURSOR_LEDGER
    return named and replace(record, cursors_ledger_id=wanted.cursors_ledger_id) == wanted


def plan_record(path: str, record: ManagedCursorInfo, existing: Collection[int]) -> tuple[ManagedCursorInfo, str]:
    """The record at `path` without the ledgers that are not in `existing`, and a note that names these, or none."""
    kept = tuple(each for each in record.properties if not _is_gone(path, *each, existing))
    beside = tuple(
        (name, text) for name, text in record.cursor_properties if set(bucket_ledgers([(name, text)])) <= set(existing)
    )
    gone = [f"{name} {value}" for name, value in record.properties if _is_gone(path, name, value, existing)]
    gone += [f"{name} {text}" for name, text in record.cursor_properties if (name, text) not in beside]
    planned = replace(record, properties=kept, cursor_properties=beside)
    if _begins_anew(path, record.properties, kept):
        planned = replace(planned, mark_delete=EARLIEST, ranges=(), batch_deletions=())
    return planned, _note(gone)


def plan_state(path: str, state: PositionInfo, existing: Collection[int]) -> tuple[PositionInfo, str]:
    """As `plan_record`, for a state from the cursor's ledger."""
    gone = [f"{name} {value}" for name, value in state.properties if _is_gone(path, name, value, existing)]
    kept = tuple(each for each in state.properties if not _is_gone(path, *each, existing))
    planned = replace(state, properties=kept)
    if _begins_anew(path, state.properties, kept):
        planned = replace(planned, position=EARLIEST, ranges=(), batch_deletions=(), ledger_bits=())
    return planned, _note(gone)


def _begins_anew(path: str, before: Properties, kept: Properties) -> bool:
    """Whether nothing of the topic is compacted any more, so that its cursor of compaction must say so."""
    return is_compaction(path) and bool(compacted_ledgers(before)) and not compacted_ledgers(kept)


def _is_gone(path: str, name: str, value: int, existing: Collection[int]) -> bool:
    return is_compaction(path) and any(each not in existing for each in compacted_ledgers([(name, value)]))


def _note(gone: list[str]) -> str:
    return f"without properties that name ledgers that are gone: {', '.join(gone)}" if gone else ""


def describe_ledgers(gone: Sequence[LedgerInfo], added: Collection[int]) -> str:
    """A note about a topic's restored list that is not the one it was."""
    notes = []
    if gone:
        notes.append(f"without the ledgers that are gone: {numbers_of(gone)}")
    if added:
        notes.append(f"with the ledgers that were added since: {shorten(list(map(str, sorted(added))), LEDGERS_NAMED)}")
    return "; ".join(notes)


def numbers_of(ledgers: Sequence[LedgerInfo]) -> str:
    """The ids of ledgers, the first ones of many, and how many entries they all hold."""
    ids = shorten([str(each.ledger_id) for each in ledgers], LEDGERS_NAMED)
    return f"{ids} ({sum(each.entries for each in ledgers):,} entries)"


def describe_state(state: NodeState | None) -> str:
    """The state of a node, for a message about a conflict."""
    return "not there" if state is None else f"at version {state.version}"
