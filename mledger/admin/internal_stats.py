"""A topic's records and what its ledgers hold, as Pulsar's info-internal and stats-internal tell; read-only.

Records are as they are stored, cursors as opening would recover them. What only the owner's memory has is not here.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from mledger.admin.inspect import CursorInspection, Inspector, TopicInspection
from mledger.bookie.client.client import BookKeeperReader
from mledger.bookie.errors import NoSuchLedger
from mledger.cursors.compaction import COMPACTION
from mledger.ledgers.references import COMPACTED_LEDGER, SCHEMAS, references_in_schema
from mledger.metastore.cluster.bookies import list_bookies
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.errors import MledgerError, NodeNotFound
from mledger.metastore.records.codec import decode_managed_ledger_info
from mledger.metastore.records.ledger_metadata import LedgerMetadata
from mledger.metastore.records.paths import TopicName, cursor_name, encode_name
from mledger.metastore.records.pb.MLDataFormats_pb2 import OffloadContext as OffloadMessage
from mledger.metastore.records.protobuf import parse_binary
from mledger.metastore.records.values import NO_CURSOR_LEDGER, LedgerInfo, ManagedLedgerInfo
from mledger.metastore.store import MetadataReader, Node, Stat

AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Offload:
    """What of a ledger's offloading is recorded; `uuid` names the copy, None where none was begun."""

    complete: bool = False
    uuid: UUID | None = None


@dataclass(frozen=True, slots=True)
class CursorInternals:
    """A cursor: `child` is its name as the path has it, `stat` its node's, `ledger_end` its cursor ledger's last entry.

    `ledger_end` is -1 where there is no cursor ledger, None where it cannot be seen; `switched_ms` is when that ledger
    was made.
    """

    child: str
    stat: Stat
    found: CursorInspection
    ledger_end: int | None = -1
    switched_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LedgerStats:
    """A ledger of the topic's list as recorded, and BookKeeper's metadata of it; None where there is none."""

    info: LedgerInfo
    offload: Offload
    metadata: LedgerMetadata | None
    under_replicated: bool


@dataclass(frozen=True, slots=True)
class OtherLedger:
    """A ledger beside the list: a schema's or the compacted topic's; sizes are None while it is not closed or gone."""

    ledger_id: int
    metadata: LedgerMetadata | None


@dataclass(frozen=True, slots=True)
class TopicInternals:
    """Everything of one topic that is known without its owner."""

    stat: Stat
    info: ManagedLedgerInfo
    topic: TopicInspection
    ledgers: tuple[LedgerStats, ...]
    cursors: tuple[CursorInternals, ...]
    schema_ledgers: tuple[OtherLedger, ...]
    compacted: OtherLedger | None


async def read_internals(reader: MetadataReader, bookkeeper: BookKeeperReader, name: str) -> TopicInternals:
    """The topic `name` as it is now; TopicNotFound, RecordError, and what keeps its last ledger from being seen."""
    inspector = Inspector(reader, bookkeeper)
    topic = await inspector.topic(name)
    path = TopicName.parse(name).managed_ledger_path
    node = await reader.get(path)
    info = decode_managed_ledger_info(node.data, path).value
    cursors, others = await asyncio.gather(
        _cursors(reader, inspector, path, name), _schema_ledgers(reader, TopicName.parse(name))
    )
    compacted = _compacted_ledger(cursors)
    ids = [ledger.ledger_id for ledger in info.ledgers]
    beside = [*others, *([] if compacted is None else [compacted])]
    metadata = await _metadata(reader, [*ids, *beside])
    registered = {bookie.bookie_id for bookie in await list_bookies(reader)}
    return TopicInternals(
        stat=node.stat,
        info=info,
        topic=topic,
        ledgers=tuple(_listed(ledger, metadata.get(ledger.ledger_id), registered, path) for ledger in info.ledgers),
        cursors=tuple(cursors),
        schema_ledgers=tuple(OtherLedger(ledger_id, metadata.get(ledger_id)) for ledger_id in others),
        compacted=None if compacted is None else OtherLedger(compacted, metadata.get(compacted)),
    )


def offload_of(ledger: LedgerInfo, path: str = "") -> Offload:
    """What the ledger's record, read at `path`, says of its offloading; RecordError."""
    if ledger.offload is None:
        return Offload()
    message = parse_binary(OffloadMessage, ledger.offload.encoded, "offload context", path)
    if not (message.HasField("uidMsb") and message.HasField("uidLsb")):
        return Offload(message.complete)
    mask = (1 << 64) - 1
    return Offload(message.complete, UUID(int=(message.uidMsb & mask) << 64 | message.uidLsb & mask))


def _listed(ledger: LedgerInfo, metadata: LedgerMetadata | None, registered: set[str], path: str) -> LedgerStats:
    bookies = {bookie for segment in metadata.segments for bookie in segment.bookies} if metadata else set()
    return LedgerStats(ledger, offload_of(ledger, path), metadata, not bookies <= registered)


async def _cursors(reader: MetadataReader, inspector: Inspector, path: str, name: str) -> list[CursorInternals]:
    children = sorted(await reader.children(path))
    nodes = await reader.get_many([f"{path}/{child}" for child in children])
    found = {each.name: each for each in await inspector.cursors(name)}
    at_once = asyncio.Semaphore(AT_ONCE)

    async def look(child: str, node: Node) -> CursorInternals:
        inspected = found[cursor_name(child)]
        record = inspected.record
        if record is None or record.cursors_ledger_id == NO_CURSOR_LEDGER:
            return CursorInternals(child, node.stat, inspected, None if record is None else -1)
        end, created = None, None
        async with at_once:
            try:
                (metadata,) = await LedgerStoreReader(reader).read_many([record.cursors_ledger_id])
                created = metadata[0].ctime if metadata and metadata[0].ctime > 0 else None
                end = (await inspector.peek(record.cursors_ledger_id)).last_entry
            except MledgerError as error:
                if inspected.error is None and not isinstance(error, NoSuchLedger):
                    raise
        return CursorInternals(child, node.stat, inspected, end, created)

    known = [(child, node) for child, node in zip(children, nodes, strict=True) if node and cursor_name(child) in found]
    return list(await asyncio.gather(*(look(child, node) for child, node in known)))


async def _schema_ledgers(reader: MetadataReader, topic: TopicName) -> list[int]:
    base = topic.partitioned
    path = f"{SCHEMAS}/{base.tenant}/{base.namespace}/{encode_name(base.local_name)}"
    try:
        data = (await reader.get(path)).data
    except NodeNotFound:
        return []
    return [each.ledger_id for each in references_in_schema(path, data)] if data else []


def _compacted_ledger(cursors: Iterable[CursorInternals]) -> int | None:
    for cursor in cursors:
        if cursor.found.name == COMPACTION and cursor.found.plan is not None:
            return dict(cursor.found.plan.properties).get(COMPACTED_LEDGER)
    return None


async def _metadata(reader: MetadataReader, ledger_ids: list[int]) -> dict[int, LedgerMetadata]:
    found = await LedgerStoreReader(reader).read_many(ledger_ids)
    return {ledger_id: each[0] for ledger_id, each in zip(ledger_ids, found, strict=True) if each is not None}
