"""Which records name which ledgers, and what follows: orphans and dangling references; no I/O.

- A data ledger is named by its topic's record, a cursor ledger by the cursor's, a schema's by its locator, a ledger
  that is being created or deleted by a pending or deletion record (R10).
- An orphan is a ledger of a managed ledger, or of a schema, that nothing names. Candidates are found among ledgers that
  were listed before any reference was read; each is looked at again before it counts.
- A reference dangles when its ledger does not exist. Ledgers that are offloaded and deleted from bookies are meant to
  be gone, those of pending and deletion records may be.
- The compacted topic's ledger is named by the last state of compaction's cursor (see `compaction`). What its record
  names may be an older one that is gone.
- Other ledgers in the cluster (compacted topics, delayed delivery, other programs) are told by their custom metadata.
  What names them is not wholly known here, so that they are never called orphans.
"""

import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from mledger.ledgers.pending_records import PendingRecord
from mledger.ledgers.shadow_topics import shadow_source
from mledger.metastore.records.ledger_metadata import LedgerMetadata
from mledger.metastore.records.pb.MLDataFormats_pb2 import OffloadContext as OffloadMessage
from mledger.metastore.records.pb.SchemaStorage_pb2 import SchemaLocator
from mledger.metastore.records.protobuf import parse_binary
from mledger.metastore.records.values import NO_CURSOR_LEDGER, LedgerInfo, ManagedCursorInfo, ManagedLedgerInfo

MANAGED_LEDGER = "managed-ledger"
SCHEMA = "schema"
COMPACTED = "compacted-ledger"
DELAYED_INDEX = "delayed-index-bucket"
SCHEMAS = "/schemas"
COMPACTED_LEDGER = "CompactedTopicLedger"
DELAYED_BUCKET = "#pulsar.internal.delayed.bucket"


class Naming(enum.Enum):
    """As what a record names a ledger."""

    DATA = "data ledger"
    CURSOR = "cursor ledger"
    SCHEMA = "schema"
    COMPACTED = "compacted topic"
    DELAYED = "delayed delivery"
    PENDING = "being created or deleted"
    KEPT = "kept: it holds a state that could not be read"


@dataclass(frozen=True, slots=True)
class Reference:
    """The record at `path` names the ledger; `may_be_gone`: it need not exist."""

    ledger_id: int
    naming: Naming
    path: str
    may_be_gone: bool = False


@dataclass(frozen=True, slots=True)
class LedgerOrigin:
    """Where a ledger comes from by its custom metadata; empty text where it does not say. `created_ms` since 1970.

    `of` says it in words, of schemas, compacted topics and delayed delivery too.
    """

    ledger_id: int
    component: str
    managed_ledger: str
    cursor: str
    created_ms: int
    of: str = ""

    @property
    def judged(self) -> bool:
        """Whether all that may name such a ledger is known here."""
        return self.component in (MANAGED_LEDGER, SCHEMA)


@dataclass(frozen=True, slots=True)
class Orphans:
    """Ledgers that nothing was seen to name: `candidates` to look at again, those too `young` to tell, and `other`.

    `other` are ledgers of components whose references are not known here; they are no findings.
    """

    candidates: tuple[LedgerOrigin, ...]
    young: tuple[LedgerOrigin, ...]
    other: tuple[LedgerOrigin, ...]


def references_in_topic(path: str, info: ManagedLedgerInfo) -> list[Reference]:
    """The data ledgers that a topic's record names; a shadow's are its source's, as they were when it was opened."""
    shadow = shadow_source(info) is not None
    return [
        Reference(ledger.ledger_id, Naming.DATA, path, may_be_gone=shadow or deleted_after_offload(ledger, path))
        for ledger in info.ledgers
    ]


def references_in_cursor(path: str, record: ManagedCursorInfo) -> list[Reference]:
    """The cursor ledgers, and the ledgers of other parts of Pulsar, that a cursor's record names.

    Not those that only an entry of its cursor ledger names: checkpoints, and the compacted topic's ledger; that of the
    record need not exist then.
    """
    found = []
    if record.cursors_ledger_id != NO_CURSOR_LEDGER:
        found.append(Reference(record.cursors_ledger_id, Naming.CURSOR, path))
    if record.last_checkpoint is not None and record.last_checkpoint.ledger_id not in (
        NO_CURSOR_LEDGER,
        record.cursors_ledger_id,
    ):
        found.append(Reference(record.last_checkpoint.ledger_id, Naming.CURSOR, path))
    in_state = record.cursors_ledger_id != NO_CURSOR_LEDGER
    found += [
        Reference(value, Naming.COMPACTED, path, may_be_gone=in_state)
        for name, value in record.properties
        if name == COMPACTED_LEDGER
    ]
    for name, text in record.cursor_properties:
        if name.startswith(DELAYED_BUCKET) and text.isdecimal():
            found.append(Reference(int(text), Naming.DELAYED, path))
    return found


def references_in_schema(path: str, data: bytes) -> list[Reference]:
    """The ledgers that a schema's locator names; RecordError."""
    locator = parse_binary(SchemaLocator, data, "schema's locator", path)
    ledgers = {each.position.ledgerId for each in (locator.info, *locator.index)}
    return [Reference(ledger_id, Naming.SCHEMA, path) for ledger_id in sorted(ledgers) if ledger_id >= 0]


def reference_in_kept(record: PendingRecord) -> Reference:
    """The cursor ledger that is kept for what could not be read in it (M12)."""
    return Reference(record.ledger_id, Naming.KEPT, record.path, may_be_gone=True)


def reference_in_record(record: PendingRecord) -> Reference:
    """The ledger that a pending or deletion record names."""
    return Reference(record.ledger_id, Naming.PENDING, record.path, may_be_gone=True)


def origin_of(ledger_id: int, metadata: LedgerMetadata, created_ms: int) -> LedgerOrigin:
    """What the custom metadata tells; `created_ms` is the node's, for records without a creation time."""
    custom = {key: value.decode("utf-8", "replace") for key, value in metadata.custom_metadata}
    managed_ledger = custom.get("pulsar/managed-ledger", "")
    component = custom.get("component", MANAGED_LEDGER if managed_ledger else "")
    created = metadata.ctime if metadata.ctime > 0 else created_ms
    cursor = custom.get("pulsar/cursor", "")
    return LedgerOrigin(ledger_id, component, managed_ledger, cursor, created, _in_words(custom))


def _in_words(custom: Mapping[str, str]) -> str:
    if "pulsar/managed-ledger" in custom:
        cursor = f" cursor {custom['pulsar/cursor']}" if "pulsar/cursor" in custom else ""
        return custom["pulsar/managed-ledger"] + cursor
    if "pulsar/schemaId" in custom:
        return f"schema of {custom['pulsar/schemaId']}"
    if "pulsar/compactedTopic" in custom:
        return f"compacted topic {custom['pulsar/compactedTopic']}"
    if "pulsar/delayedIndexTopic" in custom:
        cursor = custom.get("pulsar/delayedIndexCursor", "")
        return f"delayed delivery of {custom['pulsar/delayedIndexTopic']} cursor {cursor}"
    return ""


def find_orphans(
    listed: Iterable[LedgerOrigin], named: Collection[int], *, now_ms: int, min_age_ms: int = 0
) -> Orphans:
    """The ledgers among `listed` that are not `named`; `listed` was taken before `named` was read.

    A ledger younger than `min_age_ms` may be one that its owner has not listed yet.
    """
    candidates, young, other = [], [], []
    for origin in listed:
        if origin.ledger_id in named:
            continue
        if not origin.judged:
            other.append(origin)
        elif now_ms - origin.created_ms < min_age_ms:
            young.append(origin)
        else:
            candidates.append(origin)
    return Orphans(tuple(candidates), tuple(young), tuple(other))


def find_dangling(references: Iterable[Reference], existing: Collection[int]) -> tuple[Reference, ...]:
    """References to ledgers that do not exist and should."""
    return tuple(each for each in references if not each.may_be_gone and each.ledger_id not in existing)


def is_offloaded(ledger: LedgerInfo, path: str = "") -> bool:
    """Whether the ledger, of the record at `path`, has a complete copy in tiered storage."""
    if ledger.offload is None:
        return False
    return parse_binary(OffloadMessage, ledger.offload.encoded, "offload context", path).complete


def deleted_after_offload(ledger: LedgerInfo, path: str = "") -> bool:
    """Whether the ledger, of the record at `path`, is offloaded and was deleted from the bookies on purpose."""
    if ledger.offload is None:
        return False
    context = parse_binary(OffloadMessage, ledger.offload.encoded, "offload context", path)
    return context.complete and context.bookkeeperDeleted
