"""A topic's records and its ledgers' contents, as Pulsar's info-internal and stats-internal report them; read-only.

Records are shown as stored, cursors as opening would recover them. What only the owner has in memory is not included.
"""

import asyncio
from collections.abc import Iterable
from uuid import UUID

from msgspec import Struct

from mledger.admin.cursor_inspection import CursorInspection
from mledger.admin.inspect import Inspector, TopicInspection
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.bookie.errors import NoSuchLedger
from mledger.cursors.compaction import COMPACTION
from mledger.ledgers.orphans.pending_records import compacted_ledgers
from mledger.ledgers.orphans.references import SCHEMAS, references_in_schema
from mledger.metastore.cluster.bookies import list_bookies
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.errors import MledgerError, NodeNotFound
from mledger.metastore.records.codec import decode_managed_ledger_info
from mledger.metastore.records.ledger_metadata import LedgerMetadata
from mledger.metastore.records.paths import TopicName, encode_name
from mledger.metastore.records.pb.MLDataFormats_pb2 import OffloadContext as OffloadMessage
from mledger.metastore.records.protobuf import parse_binary
from mledger.metastore.records.values import NO_CURSOR_LEDGER, LedgerInfo, ManagedLedgerInfo
from mledger.metastore.store import MetadataReader, Node, Stat

AT_ONCE = 64


class Offload(Struct, frozen=True):
    """What a ledger's record says about its offload; `uuid` names the copy, None if no offload was started."""

    complete: bool = False
    uuid: UUID | None = None


class CursorInternals(Struct, frozen=True):
    """A cursor: `child` is its name as encoded in the path, `stat` that of its node.

    `ledger_end` is the last entry of its cursor ledger: -1 if it has none, None if it is unknown. `switched_ms` is when
    that ledger was created.
    """

    child: str
    stat: Stat
    found: CursorInspection
    ledger_end: int | None = -1
    switched_ms: int | None = None


class LedgerStats(Struct, frozen=True):
    """A ledger as the topic's list records it, and its BookKeeper metadata; None if there is none."""

    info: LedgerInfo
    offload: Offload
    metadata: LedgerMetadata | None
    under_replicated: bool


class OtherLedger(Struct, frozen=True):
    """A ledger outside the list, a schema's or the compacted topic's; `metadata` is None if it does not exist."""

    ledger_id: int
    metadata: LedgerMetadata | None


class TopicInternals(Struct, frozen=True):
    """Everything that can be found out about one topic without its owner."""

    stat: Stat
    info: ManagedLedgerInfo
    topic: TopicInspection
    ledgers: tuple[LedgerStats, ...]
    cursors: tuple[CursorInternals, ...]
    schema_ledgers: tuple[OtherLedger, ...]
    compacted: OtherLedger | None


async def read_internals(reader: MetadataReader, bookkeeper: BookKeeperReader, name: str) -> TopicInternals:
    """The topic `name` as it is now. TopicNotFound, RecordError, and the errors of peeking at its last ledger."""
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
    """What the ledger's record, read at `path`, says about its offload; RecordError."""
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
    found = {each.path: each for each in await inspector.cursors(name)}
    at_once = asyncio.Semaphore(AT_ONCE)

    async def look(child: str, node: Node) -> CursorInternals:
        inspected = found[f"{path}/{child}"]
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

    known = [(child, node) for child, node in zip(children, nodes, strict=True) if node and f"{path}/{child}" in found]
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
            return next(iter(compacted_ledgers(cursor.found.plan.properties)), None)
    return None


async def _metadata(reader: MetadataReader, ledger_ids: list[int]) -> dict[int, LedgerMetadata]:
    found = await LedgerStoreReader(reader).read_many(ledger_ids)
    return {ledger_id: each[0] for ledger_id, each in zip(ledger_ids, found, strict=True) if each is not None}
