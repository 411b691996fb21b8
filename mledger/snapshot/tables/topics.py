"""The tables `topics` and `topic_ledgers`: a topic's record, and each ledger in its list."""

import uuid
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from mledger.admin.inspect import LedgerInspection
from mledger.metastore.records.pb.MLDataFormats_pb2 import OffloadContext
from mledger.metastore.records.values import LedgerInfo
from mledger.snapshot.tables.columns import FLAG, INT, LONG, TEXT, TEXT_MAP, TIME, Column, Table
from mledger.snapshot.tables.records import Topic

_UNSIGNED = (1 << 64) - 1


def key_columns(*, shared: bool = False) -> tuple[Column[Any], ...]:
    """The columns that name a row's topic, for every table with rows of topics; `shared` as for a column."""
    namespace = "`tenant/namespace` (old form: `tenant/cluster/namespace`)"
    managed_ledger = "its managed ledger: the path below `/managed-ledgers`"
    return (
        Column("tenant", TEXT, "the tenant", _key("tenant"), shared=shared),
        Column("namespace", TEXT, namespace, _key("namespace"), shared=shared),
        Column("topic", TEXT, "the topic's full name, `persistent://…`", _key("topic"), shared=shared),
        Column("managed_ledger", TEXT, managed_ledger, _key("managed_ledger"), shared=shared),
    )


def _key(name: str) -> Callable[[Any], Any]:
    return attrgetter(f"key.{name}")


def node_columns() -> tuple[Column[Any], ...]:
    """Version and times of a row's znode."""
    return (
        Column("version", INT, "the znode's version", attrgetter("node.version")),
        Column("created", TIME, "when the znode was created", attrgetter("node.created_ms")),
        Column("modified", TIME, "when the znode was last written", attrgetter("node.modified_ms")),
    )


def znode_columns(node: str = "node", *, versioned: bool = False, shared: bool = False) -> tuple[Column[Any], ...]:
    """The stat of a row's znode by ZooKeeper's names, at the end of every table; `node` is its place in the row.

    `versioned`: the table has `node_columns`, and so the version, already. `shared` as for a column.
    """
    of: Callable[..., Column[Any]] = partial(Column, shared=shared)
    columns = (
        of("version", INT, "the znode's version", attrgetter(f"{node}.version")),
        of("czxid", LONG, "the transaction that created the znode; null without zxids", attrgetter(f"{node}.czxid")),
        of("mzxid", LONG, "the transaction that last wrote it; null without zxids", attrgetter(f"{node}.mzxid")),
        of("mtime", TIME, "when the znode was last written", attrgetter(f"{node}.modified_ms")),
    )
    return columns[versioned:]


class TopicLedger(NamedTuple):
    """One ledger in a topic's list."""

    topic: Topic
    place: int
    info: LedgerInfo
    is_last: bool
    offload: OffloadContext | None
    seen: LedgerInspection | None
    problem: str | None


def topic_ledgers_of(topic: Topic) -> list[TopicLedger]:
    """The rows of `topic_ledgers` of a topic."""
    ledgers, seen = topic.record.value.ledgers, topic.seen or {}
    last, problem = len(ledgers) - 1, topic.problem
    return [
        TopicLedger(
            topic,
            index,
            info,
            index == last,
            None if info.offload is None else OffloadContext.FromString(info.offload.encoded),
            seen.get(info.ledger_id),
            problem if index == last else None,
        )
        for index, info in enumerate(ledgers)
    ]


def _ledger_at(topic: Topic, index: int) -> int | None:
    ledgers = topic.record.value.ledgers
    return ledgers[index].ledger_id if ledgers else None


def _terminated(topic: Topic, part: int) -> int | None:
    position = topic.record.value.terminated
    return None if position is None else position[part]


TOPICS: Table[Topic] = Table(
    "topics",
    "a topic's managed ledger, as its znode has it",
    (
        *key_columns(),
        Column("partitioned_topic", TEXT, "the partitioned topic it is a partition of", _key("partitioned_topic")),
        Column("partition", INT, "which partition of it", _key("partition")),
        *node_columns(),
        Column("ledgers", INT, "how many ledgers are in its list", lambda row: len(row.record.value.ledgers)),
        Column(
            "entries",
            LONG,
            "entries in closed ledgers, as recorded; those of an open last ledger are not recorded",
            lambda row: sum([ledger.entries for ledger in row.record.value.ledgers]),
        ),
        Column(
            "size",
            LONG,
            "payload bytes in closed ledgers, as recorded",
            lambda row: sum([ledger.size for ledger in row.record.value.ledgers]),
        ),
        Column("first_ledger_id", LONG, "the oldest ledger in the list", lambda row: _ledger_at(row, 0)),
        Column("last_ledger_id", LONG, "the newest ledger in the list", lambda row: _ledger_at(row, -1)),
        Column("terminated_ledger_id", LONG, "where the topic was terminated: ledger", lambda row: _terminated(row, 0)),
        Column("terminated_entry_id", LONG, "where the topic was terminated: entry", lambda row: _terminated(row, 1)),
        Column("properties", TEXT_MAP, "its properties", lambda row: dict(row.record.value.properties)),
        Column("cursors", INT, "how many cursors (subscriptions) it has", attrgetter("node.num_children")),
        Column("compression", TEXT, "how the record is stored: NONE, LZ4, …", attrgetter("record.compression")),
        Column("text_form", FLAG, "whether it is protobuf text, of a very old cluster", attrgetter("record.text")),
        *znode_columns(versioned=True),
    ),
)


def _driver_properties(row: TopicLedger) -> dict[str, str]:
    assert row.offload is not None
    return {each.key: each.value for each in row.offload.driverMetadata.properties}


def _offload_id(row: TopicLedger) -> str | None:
    context = row.offload
    if context is None or not context.HasField("uidMsb"):
        return None
    return str(uuid.UUID(int=(context.uidMsb & _UNSIGNED) << 64 | context.uidLsb & _UNSIGNED))


_OFFLOAD = attrgetter("offload")
_SEEN = attrgetter("seen")

TOPIC_LEDGERS: Table[TopicLedger] = Table(
    "topic_ledgers",
    "a ledger in a topic's list",
    (
        *key_columns(shared=True),
        Column("index", INT, "its index in the list, from 0", attrgetter("place")),
        Column("ledger_id", LONG, "the ledger", attrgetter("info.ledger_id")),
        Column("last", FLAG, "whether it is the last of the list", attrgetter("is_last")),
        Column("entries", LONG, "entries as recorded; 0 while it is open", attrgetter("info.entries")),
        Column("size", LONG, "payload bytes as recorded; 0 while it is open", attrgetter("info.size")),
        Column("closed", TIME, "when it was closed; null while it is open", lambda row: row.info.timestamp or None),
        Column("properties", TEXT_MAP, "its properties", lambda row: dict(row.info.properties)),
        Column("offload_id", TEXT, "the offloaded copy's id", _offload_id, _OFFLOAD),
        Column(
            "offload_complete",
            FLAG,
            "whether the offloaded copy is complete; null if no offload was started",
            attrgetter("offload.complete"),
            _OFFLOAD,
        ),
        Column(
            "offload_deleted",
            FLAG,
            "whether the ledger was then deleted from the bookies",
            attrgetter("offload.bookkeeperDeleted"),
            _OFFLOAD,
        ),
        Column("offloaded", TIME, "when the copy was complete", lambda row: row.offload.timestamp or None, _OFFLOAD),
        Column(
            "offload_driver",
            TEXT,
            "which driver copied it",
            lambda row: row.offload.driverMetadata.name or None,
            _OFFLOAD,
        ),
        Column("offload_properties", TEXT_MAP, "where the driver put it", _driver_properties, _OFFLOAD),
        Column(
            "seen_entries",
            LONG,
            "entries that its bookies have now (`state=recovered`; null if they were not read or did not answer)",
            attrgetter("seen.entries"),
            _SEEN,
        ),
        Column(
            "seen_size",
            LONG,
            "payload bytes that its bookies have now, likewise",
            attrgetter("seen.size"),
            _SEEN,
        ),
        Column(
            "unconfirmed",
            FLAG,
            "whether recovery may still find another end",
            attrgetter("seen.unconfirmed"),
            _SEEN,
        ),
        Column("error", TEXT, "why its bookies could not be read", attrgetter("problem")),
        *znode_columns(shared=True),
    ),
    record_of=attrgetter("topic"),
)
