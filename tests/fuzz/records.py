"""Targets: every record that the metadata store and cursor ledgers hold, and the decisions from a cursor's state."""

import itertools

from mledger.admin.undo.undo_file import (
    ChangedRecord,
    NodeState,
    Outcome,
    SavedCursor,
    UndoFile,
    UndoFileError,
    decode_undo_file,
    encode_undo_file,
)
from mledger.bookie.errors import InvalidBookieDirectory
from mledger.bookie.server.storage.directories.directory import decode_format, encode_format, new_format
from mledger.cursors.entry_time import publish_time
from mledger.cursors.persistence.ledger_state import StateFound, StateUnreadable, parse_entry
from mledger.cursors.recovery import plan_cursor_recovery
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.cluster import cookies, policies, underreplication
from mledger.metastore.cluster.bookies import decode_registration
from mledger.metastore.errors import InvalidName, RecordError
from mledger.metastore.records import codec, compression, ledger_codec, partitioned_topic
from mledger.metastore.records.paths import TopicName, decode_name
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo, PositionInfo
from tests.fuzz import corpus
from tests.fuzz.mutate import varint
from tests.fuzz.targets import Disagreement, FuzzTarget, of_seeds

_METADATA_3 = b"BookieMetadataFormatVersion\t3\n"
_kinds = itertools.cycle(compression.CompressionType)


def _packed(record: bytes) -> bytes:
    """`record` compressed as Pulsar does, each time with another codec."""
    return compression.compress(record, next(_kinds))


def _packed_metadata(message: bytes) -> bytes:
    return _METADATA_3 + varint(len(message)) + message


def _metadata_messages() -> list[bytes]:
    found = []
    for data in corpus.ledger_metadata():
        if data.startswith(_METADATA_3):
            body = data[len(_METADATA_3) :]
            found.append(body[2 if body[0] >= 0x80 else 1 :])
    return found


def _topics() -> list[bytes]:
    return corpus.records("managedLedgerInfo") + corpus.odd_records()


def _cursors() -> list[bytes]:
    return corpus.records("managedCursorInfo") + corpus.odd_records()


def _states() -> list[bytes]:
    return corpus.records("positionInfo") + corpus.cursor_states()


def _ledger_list() -> LedgerList:
    """A topic with the ledgers that the golden states name, and with gaps."""
    infos = [LedgerInfo(ledger, 10_000, 1_000, 1) for ledger in (1, 3, 4, 5, 8, 12, 60, 601)]
    return LedgerList((*infos, LedgerInfo(1 << 40, 0, 0, 0)), current=1 << 40)


_LEDGERS = _ledger_list()


def recover_from_state(data: bytes) -> None:
    """A cursor ledger's last entry, and the cursor that follows from it."""
    outcome = parse_entry(data, Position(7, 0))
    if isinstance(outcome, PositionInfo):
        finding = StateFound(outcome, Position(7, 0))
    else:
        finding = StateUnreadable(Position(7, 0), outcome.reason)
    _recover(ManagedCursorInfo(7, mark_delete=Position(3, 4)), finding)


def recover_from_record(data: bytes) -> None:
    """A cursor's record without a cursor ledger, and the cursor that follows from it."""
    record = codec.decode_managed_cursor_info(data).value
    if record.cursors_ledger_id == -1:
        _recover(record, None)


def _recover(record: ManagedCursorInfo, finding: StateFound | StateUnreadable | None) -> None:
    plan = plan_cursor_recovery("sub", record, finding, _LEDGERS)
    if not 0 <= plan.backlog <= _LEDGERS.total_entries:
        raise Disagreement(f"a backlog of {plan.backlog} in {_LEDGERS.total_entries} entries")


def _undo_files() -> list[bytes]:
    topic = "/managed-ledgers/t/n/persistent/x"
    cursor = f"{topic}/sub"
    records = (
        ChangedRecord(topic, NodeState(b"\n\x02\x08\x05", 3), NodeState(b"", 4)),
        ChangedRecord(cursor, None, None),
    )
    named = UndoFile(
        "topics trim", "t/n/x", 1_700_000_000_000, "zk://h", records, ("t/n/persistent/x",), outcome=Outcome.DONE
    )
    saved = UndoFile(
        "cursors reset", "t/n/x", 0, "zk://h", records[1:], (), (SavedCursor(cursor, b"\x08\x01"),), ("a",)
    )
    return [encode_undo_file(named), encode_undo_file(saved)]


def _partitions() -> list[bytes]:
    return [
        corpus.json_text({"partitions": 4, "deleted": False}),
        corpus.json_text({"partitions": 4, "deleted": True, "properties": {"a": "b"}, "more": [1, {"x": None}]}),
    ]


def _policies() -> list[bytes]:
    retention = {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1}
    quorums = {"bookkeeperEnsemble": 3, "bookkeeperWriteQuorum": 3, "bookkeeperAckQuorum": 2}
    both = {"retention_policies": retention, "persistence": quorums, "bundles": {"numBundles": 4}}
    return [corpus.json_text(both), corpus.json_text({})]


def _layouts() -> list[bytes]:
    return [encode_format(new_format("127.0.0.1:3181", "6a2f", journal)).encode() for journal in ("journal", "/j")]


def directory_format(data: bytes) -> None:
    """The file FORMAT of a bookie's directory."""
    decode_format(data.decode("utf-8", "replace"), "FORMAT")


def _names() -> list[bytes]:
    texts = ["persistent://public/default/a b", "public/cluster/ns/persistent/t%2Fx", "t/n/x", "a%7E+%E2%82%AC*-._"]
    return [text.encode() for text in texts]


def name(data: bytes) -> None:
    """A topic's name, and a node's name in ZooKeeper."""
    text = data.decode("utf-8", "replace")
    TopicName.parse(text)
    decode_name(text)


_RECORD = (RecordError,)

TARGETS = [
    FuzzTarget(
        "topic records",
        of_seeds(
            lambda: corpus.records("managedLedgerInfo", compressed=True), message=True, inner=_topics, wrap=_packed
        ),
        lambda data: void(codec.decode_managed_ledger_info(data)),
        _RECORD,
        10,
    ),
    FuzzTarget(
        "cursor records",
        of_seeds(
            lambda: corpus.records("managedCursorInfo", compressed=True), message=True, inner=_cursors, wrap=_packed
        ),
        recover_from_record,
        _RECORD,
        8,
    ),
    FuzzTarget(
        "cursor states", of_seeds(_states, message=True, inner=_states, wrap=_packed), recover_from_state, (), 10
    ),
    FuzzTarget(
        "ledger metadata",
        of_seeds(corpus.ledger_metadata, message=True, inner=_metadata_messages, wrap=_packed_metadata),
        lambda data: void(ledger_codec.decode_ledger_metadata(data)),
        _RECORD,
        10,
    ),
    FuzzTarget(
        "cookies",
        of_seeds(lambda: corpus.nodes_at(lambda path: path.startswith("/ledgers/cookies/"))),
        lambda data: void(cookies.decode_cookie(data)),
        _RECORD,
        3,
    ),
    FuzzTarget(
        "registrations",
        of_seeds(lambda: corpus.nodes_at(lambda path: path.startswith("/ledgers/available/")), message=True),
        lambda data: void(decode_registration("127.0.0.1:3181", data)),
        _RECORD,
        6,
    ),
    FuzzTarget(
        "under-replication",
        of_seeds(lambda: corpus.nodes_at(lambda path: path.startswith("/ledgers/underreplication/"))),
        lambda data: void(_marks(data)),
        _RECORD,
        2,
    ),
    FuzzTarget(
        "partitioned topics",
        of_seeds(_partitions),
        lambda data: void(partitioned_topic.decode_partitioned_topic(data)),
        _RECORD,
        4,
    ),
    FuzzTarget(
        "policies", of_seeds(_policies), lambda data: void(policies.decode_namespace_policies(data, "")), _RECORD, 4
    ),
    FuzzTarget("undo files", of_seeds(_undo_files), lambda data: void(decode_undo_file(data)), (UndoFileError,), 2),
    FuzzTarget("directory formats", of_seeds(_layouts), directory_format, (InvalidBookieDirectory,), 2),
    FuzzTarget("names", of_seeds(_names), name, (InvalidName,), 4),
    FuzzTarget("publish times", of_seeds(corpus.pulsar_entries), lambda data: void(publish_time(data)), _RECORD, 6),
]


def void(_: object) -> None:
    """Discard what a reader made."""


def _marks(data: bytes) -> None:
    try:
        underreplication.decode_underreplicated_ledger(data)
    except RecordError:
        underreplication.decode_lock(data)
