"""Which records name which ledgers; orphans and dangling references; no I/O.

- A topic's record names its data ledgers, a cursor's record its cursor ledger, a schema's locator
  its ledgers. A pending or deletion record names a ledger that is being created or deleted (R10).
- An orphan is a ledger of a managed ledger or schema that nothing names. Candidates are ledgers
  listed before any reference was read; each is checked again before it counts.
- A reference dangles if its ledger does not exist. Ledgers that are offloaded and deleted from the
  bookies are gone on purpose; those of pending and deletion records may be gone.
- The last state of compaction's cursor names the compacted topic's ledger (see `compaction`). The
  cursor's record may name an older one that is gone.
- Custom metadata identifies the other ledgers in the cluster (compacted topics, delayed delivery,
  other programs). Not all references to them are known here, so they never count as orphans.
"""

import contextlib
import enum
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from mledger.ledgers.offload import deleted_after_offload
from mledger.ledgers.orphans.pending_records import PendingRecord, bucket_ledgers, compacted_ledgers
from mledger.ledgers.shadow_topics import shadow_source
from mledger.metastore.errors import InvalidName
from mledger.metastore.records.ledger_metadata import LedgerMetadata
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.pb.SchemaStorage_pb2 import SchemaLocator
from mledger.metastore.records.protobuf import parse_binary
from mledger.metastore.records.values import NO_CURSOR_LEDGER, ManagedCursorInfo, ManagedLedgerInfo

MANAGED_LEDGER = "managed-ledger"
SCHEMA = "schema"
COMPACTED = "compacted-ledger"
COMPACTED_TOPIC = "pulsar/compactedTopic"
DELAYED_INDEX = "delayed-index-bucket"
DELAYED_TOPIC = "pulsar/delayedIndexTopic"
SCHEMA_ID = "pulsar/schemaId"
MANAGED_LEDGER_NAME = "pulsar/managed-ledger"
SCHEMAS = "/schemas"


class Naming(enum.Enum):
    """The role in which a record names a ledger."""

    DATA = "data ledger"
    CURSOR = "cursor ledger"
    SCHEMA = "schema"
    COMPACTED = "compacted topic"
    DELAYED = "delayed delivery"
    PENDING = "being created or deleted"
    KEPT = "kept: nothing else names it"


class Reference(Struct, frozen=True):
    """The record at `path` names the ledger; `may_be_gone`: it need not exist."""

    ledger_id: int
    naming: Naming
    path: str
    may_be_gone: bool = False


class LedgerOrigin(Struct, frozen=True):
    """A ledger's origin by its custom metadata, with empty text for what that does not say.

    `created_ms` is since 1970. `of` describes the origin in words, for schemas, compacted topics
    and delayed delivery too.
    """

    ledger_id: int
    component: str
    managed_ledger: str
    cursor: str
    created_ms: int
    of: str = ""

    @property
    def judged(self) -> bool:
        """Whether all possible references to such a ledger are known here."""
        return self.component in (MANAGED_LEDGER, SCHEMA)


class Orphans(Struct, frozen=True):
    """Ledgers without a known reference: `candidates` to check again, those too `young`, and `other`.

    `other` are ledgers of components whose references are not known here; they are not findings.
    """

    candidates: tuple[LedgerOrigin, ...]
    young: tuple[LedgerOrigin, ...]
    other: tuple[LedgerOrigin, ...]


def references_in_topic(path: str, info: ManagedLedgerInfo) -> list[Reference]:
    """The data ledgers that a topic's record names; a shadow's record names ledgers of its source."""
    shadow = shadow_source(info) is not None
    return [
        Reference(ledger.ledger_id, Naming.DATA, path, may_be_gone=shadow or deleted_after_offload(ledger, path))
        for ledger in info.ledgers
    ]


def references_in_cursor(path: str, record: ManagedCursorInfo) -> list[Reference]:
    """The cursor ledgers, and ledgers of other parts of Pulsar, that a cursor's record names.

    Ledgers that only an entry of the cursor ledger names are not included: those of checkpoints,
    and the compacted topic's ledger. If there is a cursor ledger, the compacted ledger that the
    record names need not exist.
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
        Reference(each, Naming.COMPACTED, path, may_be_gone=in_state) for each in compacted_ledgers(record.properties)
    ]
    found += [Reference(each, Naming.DELAYED, path) for each in bucket_ledgers(record.cursor_properties)]
    return found


def references_in_schema(path: str, data: bytes) -> list[Reference]:
    """The ledgers that a schema's locator names. Raises RecordError."""
    locator = parse_binary(SchemaLocator, data, "schema's locator", path)
    ledgers = {each.position.ledgerId for each in (locator.info, *locator.index)}
    return [Reference(ledger_id, Naming.SCHEMA, path) for ledger_id in sorted(ledgers) if ledger_id >= 0]


def reference_in_kept(record: PendingRecord) -> Reference:
    """The ledger that is kept: its last state could not be read (M12), or its topic's list has lost it."""
    return Reference(record.ledger_id, Naming.KEPT, record.path, may_be_gone=True)


def reference_in_record(record: PendingRecord) -> Reference:
    """The ledger that a pending or deletion record names."""
    return Reference(record.ledger_id, Naming.PENDING, record.path, may_be_gone=True)


def custom_texts(metadata: LedgerMetadata) -> dict[str, str]:
    """The custom metadata of a ledger as texts."""
    return {key: value.decode("utf-8", "replace") for key, value in metadata.custom_metadata}


def origin_of(ledger_id: int, metadata: LedgerMetadata, created_ms: int) -> LedgerOrigin:
    """The origin by custom metadata; `created_ms` is the node's, used if the metadata has no time."""
    custom = custom_texts(metadata)
    managed_ledger = custom.get(MANAGED_LEDGER_NAME, "")
    component = custom.get("component", MANAGED_LEDGER if managed_ledger else "")
    created = metadata.ctime if metadata.ctime > 0 else created_ms
    cursor = custom.get("pulsar/cursor", "")
    return LedgerOrigin(ledger_id, component, managed_ledger, cursor, created, _in_words(custom))


def compacted_topic(custom: Mapping[str, str]) -> str:
    """The full name of the topic whose compacted ledger has this metadata, empty if it names none.

    `pulsar compact-topic` writes the name as it is given, which may be a short one.
    """
    said = custom.get(COMPACTED_TOPIC, "")
    with contextlib.suppress(InvalidName):
        return str(TopicName.parse(said))
    return said


TOPIC_OF = {COMPACTED: COMPACTED_TOPIC, DELAYED_INDEX: DELAYED_TOPIC}
"""The custom metadata that names the topic, by component."""


def named_topic(component: str, metadata: LedgerMetadata) -> str:
    """The topic that a compacted ledger or one of delayed delivery says it is of, empty if it names none."""
    custom = custom_texts(metadata)
    return compacted_topic(custom) if component == COMPACTED else custom.get(TOPIC_OF[component], "")


def _in_words(custom: Mapping[str, str]) -> str:
    if MANAGED_LEDGER_NAME in custom:
        cursor = f" cursor {custom['pulsar/cursor']}" if "pulsar/cursor" in custom else ""
        return custom[MANAGED_LEDGER_NAME] + cursor
    if SCHEMA_ID in custom:
        return f"schema of {custom[SCHEMA_ID]}"
    if COMPACTED_TOPIC in custom:
        return f"compacted topic {custom[COMPACTED_TOPIC]}"
    if DELAYED_TOPIC in custom:
        cursor = custom.get("pulsar/delayedIndexCursor", "")
        return f"delayed delivery of {custom[DELAYED_TOPIC]} cursor {cursor}"
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
    """References to ledgers that should exist and do not."""
    return tuple(each for each in references if not each.may_be_gone and each.ledger_id not in existing)
