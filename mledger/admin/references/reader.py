"""Reads all references to ledgers, and all ledgers, a page at a time; it uses only types that cannot write."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from msgspec import Struct, field

from mledger.admin.topic_names import PAGE, children_of, managed_ledger_paths
from mledger.cursors.compaction import is_compaction, names_in_state
from mledger.ledgers.orphans.pending_records import read_kept, read_records
from mledger.ledgers.orphans.references import (
    SCHEMAS,
    LedgerOrigin,
    Naming,
    Reference,
    origin_of,
    reference_in_kept,
    reference_in_record,
    references_in_cursor,
    references_in_schema,
    references_in_topic,
)
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.errors import RecordError
from mledger.metastore.records.codec import decode_managed_cursor_info, decode_managed_ledger_info
from mledger.metastore.records.ledger_codec import decode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState
from mledger.metastore.records.paths import (
    is_possible_ledger,
    ledger_path,
    managed_ledger_path,
)
from mledger.metastore.records.values import ManagedCursorInfo
from mledger.metastore.store import MetadataReader, Node

Counted = Callable[[int], None]


def ignore_count(count: int) -> None:
    """A Counted that does nothing."""


class UnreadableRecord(Struct, frozen=True):
    """A record that does not parse: the ledgers that it names are unknown."""

    path: str
    reason: str


class References(Struct):
    """The references found, and the records that could not be read.

    `compactions` are compaction's cursors, by path, whose last state may name a ledger that no record names.
    """

    found: list[Reference] = field(default_factory=list)
    unreadable: list[UnreadableRecord] = field(default_factory=list)
    compactions: list[tuple[str, ManagedCursorInfo]] = field(default_factory=list)

    def note(self, path: str, data: bytes, read: Callable[[str, bytes], Sequence[Reference]]) -> None:
        """Add what `read` finds in the record at `path`, or note that it does not parse."""
        try:
            self.found += read(path, data)
        except RecordError as error:
            self.unreadable.append(UnreadableRecord(path, str(error)))

    @property
    def ledgers(self) -> set[int]:
        """The ledgers named."""
        return {each.ledger_id for each in self.found}

    @property
    def kept(self) -> set[int]:
        """Those named by the record that they are kept alone."""
        others = {each.ledger_id for each in self.found if each.naming is not Naming.KEPT}
        return self.ledgers - others


class ListedLedger(Struct, frozen=True):
    """An existing ledger: its origin, and how many copies of entries it should have (0 while it is not closed)."""

    origin: LedgerOrigin
    copies: int


async def list_origins(
    reader: MetadataReader, unreadable: list[UnreadableRecord], count: Counted = ignore_count
) -> list[ListedLedger]:
    """Every ledger, by ascending id; one whose metadata does not parse has an empty origin."""
    found: list[ListedLedger] = []
    strange: list[RecordError] = []
    async for page in LedgerStoreReader(reader).list(strange):
        found += await read_origins(reader, page, unreadable)
        count(len(page))
    unreadable += (UnreadableRecord(error.path, str(error)) for error in strange)
    return found


async def read_origins(
    reader: MetadataReader, ledger_ids: Sequence[int], unreadable: list[UnreadableRecord]
) -> list[ListedLedger]:
    """Those of `ledger_ids` that exist; a damaged record may name any number."""
    possible = [ledger_id for ledger_id in ledger_ids if is_possible_ledger(ledger_id)]
    paths = [ledger_path(ledger_id) for ledger_id in possible]
    found = []
    for ledger_id, path, node in zip(possible, paths, await reader.get_many(paths), strict=True):
        if node is None:
            continue
        try:
            metadata = decode_ledger_metadata(node.data, path)
        except RecordError as error:
            unreadable.append(UnreadableRecord(path, str(error)))
            found.append(ListedLedger(LedgerOrigin(ledger_id, "", "", "", node.stat.created_ms), 0))
        else:
            origin = origin_of(ledger_id, metadata, node.stat.created_ms)
            found.append(ListedLedger(origin, expected_copies(metadata)))
    return found


def expected_copies(metadata: LedgerMetadata) -> int:
    """How many copies of entries a closed ledger should have."""
    return (metadata.last_entry + 1) * metadata.write_quorum if metadata.state is LedgerState.CLOSED else 0


async def read_references(reader: MetadataReader, count: Counted = ignore_count) -> References:
    """Every reference to a ledger; `count` is called with the number of topics of each page.

    Pending and deletion records are read both before and after the lists: a ledger that moves between a record and a
    list meanwhile is seen in one of them.
    """
    references = References()
    await _note_records(reader, references)
    async for paths in managed_ledger_paths(reader):
        await _note_topics(reader, paths, references)
        count(len(paths))
    await _note_schemas(reader, references)
    await _note_records(reader, references)
    await _note_kept(reader, references)
    return references


async def read_references_of(reader: MetadataReader, managed_ledger: str) -> References:
    """What one managed ledger references, and its pending and deletion records; empty if it does not exist."""
    references = References()
    await _note_records(reader, references, managed_ledger)
    await _note_topics(reader, [managed_ledger_path(managed_ledger)], references)
    await _note_records(reader, references, managed_ledger)
    await _note_kept(reader, references, managed_ledger)
    return references


async def read_topic_references(reader: MetadataReader, managed_ledger: str) -> References:
    """What the records of one managed ledger and its cursors reference, without pending and deletion records."""
    references = References()
    await _note_topics(reader, [managed_ledger_path(managed_ledger)], references)
    return references


async def _note_topics(reader: MetadataReader, paths: Sequence[str], references: References) -> None:
    """Add the references of the topics at `paths` and of their cursors."""
    for path, node in await _nodes(reader, paths):
        references.note(path, node.data, _in_topic)
    cursors = await children_of(reader, paths)
    for first in range(0, len(cursors), PAGE):
        for path, node in await _nodes(reader, cursors[first : first + PAGE]):
            references.note(path, node.data, partial(_in_cursor, references))


def _in_topic(path: str, data: bytes) -> Sequence[Reference]:
    return references_in_topic(path, decode_managed_ledger_info(data, path).value)


def _in_cursor(references: References, path: str, data: bytes) -> Sequence[Reference]:
    record = decode_managed_cursor_info(data, path).value
    if is_compaction(path) and names_in_state(record):
        references.compactions.append((path, record))
    return references_in_cursor(path, record)


async def _note_schemas(reader: MetadataReader, references: References) -> None:
    """Add the references of schemas; they lie at tenant/namespace/topic, and the nodes above have no data."""
    level = [SCHEMAS]
    while level:
        below = await children_of(reader, level)
        for first in range(0, len(below), PAGE):
            for path, node in await _nodes(reader, below[first : first + PAGE]):
                if node.data:
                    references.note(path, node.data, references_in_schema)
        level = below


async def _note_records(reader: MetadataReader, references: References, managed_ledger: str | None = None) -> None:
    seen = set(references.found)
    found = [
        reference_in_record(record)
        for record in await read_records(reader)
        if managed_ledger is None or record.managed_ledger == managed_ledger
    ]
    references.found += [each for each in found if each not in seen]


async def _note_kept(reader: MetadataReader, references: References, managed_ledger: str | None = None) -> None:
    """Add the kept ledgers. Read them last: a ledger moves from its cursor, or from its topic's list, to them.

    Only an undo or a repair moves it back, and names it in that record first, or in the same write.
    """
    references.found += [
        reference_in_kept(record)
        for record in await read_kept(reader)
        if managed_ledger is None or record.managed_ledger == managed_ledger
    ]


async def _nodes(reader: MetadataReader, paths: Sequence[str]) -> Iterable[tuple[str, Node]]:
    nodes = await reader.get_many(paths)
    return [(path, node) for path, node in zip(paths, nodes, strict=True) if node is not None]
