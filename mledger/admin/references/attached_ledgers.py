"""What belongs to a topic besides the ledgers in its list, and is deleted with it; read-only.

- The compacted topic's ledger, which compaction's cursor names, and the ledgers with the index of delayed messages
  ("buckets"), which a subscription's cursor names in its properties. A ledger counts only if its own custom metadata
  names this topic: a property is text that anyone may have written.
- The ledgers that are kept: a command took them from the list, or the last state in a cursor ledger could not be read.
- Topics with pending acknowledgements of transactions, one for each subscription that has had any.
"""

import contextlib
import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.cursors.compaction import compacted_ledger, is_compaction, names_in_state
from mledger.cursors.persistence.state_reader import StateLedger, find_state
from mledger.errors import CursorRecoveryFailed
from mledger.ledgers.orphans.foreign_ledgers import is_component_of, plan_foreign
from mledger.ledgers.orphans.pending_records import read_kept
from mledger.ledgers.orphans.references import (
    COMPACTED,
    DELAYED_INDEX,
    Naming,
    Reference,
    references_in_cursor,
)
from mledger.metastore.errors import InvalidName, RecordError
from mledger.metastore.records.codec import decode_managed_cursor_info
from mledger.metastore.records.ledger_codec import decode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState
from mledger.metastore.records.paths import TopicName, cursor_name_from_path, is_possible_ledger, ledger_path
from mledger.metastore.store import MetadataReader

PENDING_ACK_SUFFIX = "__transaction_pending_ack"
_COMPONENT = {Naming.COMPACTED: COMPACTED, Naming.DELAYED: DELAYED_INDEX}


class AttachedLedger(Struct, frozen=True):
    """A ledger that the cursor at `cursor_path` names, or the record there that it is kept.

    `entries` and `size` are None while it is not closed.
    """

    ledger_id: int
    naming: Naming
    cursor_path: str
    entries: int | None
    size: int | None


class Attachments(Struct, frozen=True):
    """The ledgers that are deleted with a topic; `unknown` has a line for each thing that cannot be found out now.

    Ledgers whose metadata does not parse may belong to anyone, and are not among `ledgers`: `damaged` has the errors.
    """

    ledgers: tuple[AttachedLedger, ...] = ()
    unknown: tuple[str, ...] = ()
    damaged: tuple[RecordError, ...] = ()

    def by_cursor(self) -> Mapping[str, Sequence[int]]:
        """The ids of the ledgers by the path of the cursor that names them."""
        found: dict[str, list[int]] = defaultdict(list)
        for each in self.ledgers:
            found[each.cursor_path].append(each.ledger_id)
        return found


async def find_attached(
    reader: MetadataReader, bookkeeper: BookKeeperReader, managed_ledger: str, cursor_paths: Iterable[str]
) -> Attachments:
    """The ledgers that the cursors at `cursor_paths` name besides their cursor ledgers."""
    paths = list(cursor_paths)
    named: list[Reference] = []
    unknown: list[str] = []

    async def open_peeked(ledger_id: int) -> StateLedger:
        return (await bookkeeper.peek(ledger_id, None)).decided().reader

    for path, node in zip(paths, await reader.get_many(paths), strict=True):
        if node is None:
            continue
        try:
            record = decode_managed_cursor_info(node.data, path).value
        except RecordError as error:
            unknown.append(f"the ledgers that {path} names: {error}")
            continue
        named += [each for each in references_in_cursor(path, record) if _counts(each)]
        if not (is_compaction(path) and names_in_state(record)):
            continue
        try:
            latest = compacted_ledger(record, await find_state(open_peeked, reader.sync, record.cursors_ledger_id))
        except CursorRecoveryFailed as error:
            unknown.append(f"the compacted topic's ledger, if compaction has run again: {error}")
        else:
            named += [Reference(latest, Naming.COMPACTED, path)] if latest is not None else []
    found = await _find_own(reader, named, managed_ledger)
    return replace(found, unknown=(*unknown, *found.unknown))


async def find_kept(reader: MetadataReader, managed_ledgers: Collection[str]) -> dict[str, list[AttachedLedger]]:
    """The ledgers of each managed ledger that exist and that only a record of ours keeps, which goes with its topic.

    Nothing says how many entries one has whose metadata does not parse. Another topic's are not among them.
    """
    found: dict[str, list[AttachedLedger]] = {name: [] for name in managed_ledgers}
    records = [each for each in await read_kept(reader) if each.managed_ledger in found]
    records = [each for each in records if is_possible_ledger(each.ledger_id)]
    at = [ledger_path(each.ledger_id) for each in records]
    for record, path, node in zip(records, at, await reader.get_many(at), strict=True):
        if node is None:
            continue
        kept = Reference(record.ledger_id, Naming.KEPT, record.path)
        try:
            metadata = decode_ledger_metadata(node.data, path)
        except RecordError:
            found[record.managed_ledger].append(AttachedLedger(record.ledger_id, kept.naming, kept.path, None, None))
            continue
        if not plan_foreign(record.ledger_id, metadata, record.managed_ledger):
            found[record.managed_ledger].append(_attached(kept, metadata))
    return found


def _counts(reference: Reference) -> bool:
    """Whether the ledger can be one beside the list; what a subscription calls compacted is a client's own number."""
    if reference.naming is Naming.COMPACTED:
        return is_compaction(reference.path)
    return reference.naming in _COMPONENT


async def is_compacted_ledger(reader: MetadataReader, ledger_id: int, managed_ledger: str) -> bool:
    """Whether a ledger exists and says of itself that compaction wrote it for this topic. Raises StoreUnavailable."""
    if not is_possible_ledger(ledger_id):  # a client may have written it
        return False
    return bool(await _own(reader, [ledger_id], Naming.COMPACTED, managed_ledger))


async def own_buckets(reader: MetadataReader, ledger_ids: Iterable[int], managed_ledger: str) -> list[int]:
    """Those of the ledgers that say of themselves that they hold an index of this topic's delayed messages.

    Raises StoreUnavailable.
    """
    return await _own(reader, ledger_ids, Naming.DELAYED, managed_ledger)


async def _own(reader: MetadataReader, ledger_ids: Iterable[int], naming: Naming, managed_ledger: str) -> list[int]:
    named = [Reference(each, naming, ledger_path(each)) for each in ledger_ids]
    return [each.ledger_id for each in (await _find_own(reader, named, managed_ledger)).ledgers]


async def _find_own(reader: MetadataReader, named: Iterable[Reference], managed_ledger: str) -> Attachments:
    """Those of the ledgers `named` that belong to the managed ledger's topic."""
    unique = list({each.ledger_id: each for each in named}.values())
    ledgers: list[AttachedLedger] = []
    unknown: list[str] = []
    damaged: list[RecordError] = []
    at = [ledger_path(each.ledger_id) for each in unique]
    for reference, path, node in zip(unique, at, await reader.get_many(at), strict=True):
        if node is None:
            continue
        try:
            metadata = decode_ledger_metadata(node.data, path)
        except RecordError as error:
            damaged.append(error)
            unknown.append(f"ledger {reference.ledger_id}, which {reference.path} names, stays: {error}")
            continue
        if is_component_of(metadata, _COMPONENT[reference.naming], managed_ledger):
            ledgers.append(_attached(reference, metadata))
    return Attachments(tuple(ledgers), tuple(unknown), tuple(damaged))


async def pending_ack_topics(
    reader: MetadataReader, topic: TopicName, subscriptions: Iterable[str] | None = None
) -> list[TopicName]:
    """The pending-ack topics of the subscriptions of `topic`, or of `subscriptions`, that no other topic may own.

    `a-b-c__transaction_pending_ack` is the name for subscription `b-c` of `a` and for `c` of `a-b`. While both
    subscriptions exist, its owner is ambiguous: it is deleted with the last of them.
    """
    named = []
    for subscription in await _subscriptions(reader, topic) if subscriptions is None else subscriptions:
        with contextlib.suppress(InvalidName):
            named.append(pending_ack_topic(topic, subscription))
    there = await reader.get_many([each.managed_ledger_path for each in named])
    found = [each for each, node in zip(named, there, strict=True) if node is not None]
    return [each for each in found if not await _is_shared(reader, each, topic)]


async def _subscriptions(reader: MetadataReader, topic: TopicName) -> list[str]:
    (children,) = await reader.children_many([topic.managed_ledger_path])
    names = []
    for child in sorted(children or ()):
        with contextlib.suppress(InvalidName):
            names.append(cursor_name_from_path(child))
    return names


async def _is_shared(reader: MetadataReader, acks: TopicName, topic: TopicName) -> bool:
    """Whether a topic other than `topic` has a subscription whose pending-ack topic is called `acks`."""
    stem = acks.local_name.removesuffix(PENDING_ACK_SUFFIX)
    for at, character in enumerate(stem):
        if character != "-" or stem[:at] in ("", topic.local_name):
            continue
        other = dataclasses.replace(topic, local_name=stem[:at])
        if stem[at + 1 :] in await _subscriptions(reader, other):
            return True
    return False


def pending_ack_topic(topic: TopicName, subscription: str) -> TopicName:
    """The topic that holds the acknowledgements of transactions on `subscription`."""
    local_name = f"{topic.local_name}-{subscription}{PENDING_ACK_SUFFIX}"
    return TopicName(topic.tenant, topic.namespace, local_name, topic.cluster, topic.domain)


def _attached(reference: Reference, metadata: LedgerMetadata) -> AttachedLedger:
    closed = metadata.state is LedgerState.CLOSED
    return AttachedLedger(
        reference.ledger_id,
        reference.naming,
        reference.path,
        metadata.last_entry + 1 if closed else None,
        metadata.length if closed else None,
    )
