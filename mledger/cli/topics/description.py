"""The output of `mledger topics describe`, for a topic and for a partitioned topic."""

from mledger.admin.inspect import PartitionedInspection, TopicInspection
from mledger.cli.shared.output.results import OutputRecord, OutputTable, Value, columns, fields, pairs
from mledger.errors import PoliciesUnavailable
from mledger.ledgers.retention import RetentionInForce, RetentionOrigin, retention_warnings

LEDGER_COLUMNS = columns("ledger_id", "entries", "size", "state", "closed_ms")
PARTITION_COLUMNS = columns(
    "partition", "entries", "size", "ledgers", "last_confirmed", "terminated", "cursors", "owner"
)


def described_topic(
    topic: str, found: TopicInspection, retention: RetentionInForce | PoliciesUnavailable
) -> OutputRecord:
    """A topic's facts, its effective retention and its ledgers; `topic` is the name as given."""
    ledgers = tuple(
        (each.ledger_id, each.entries, each.size, _ledger_state(each.closed, each.unconfirmed), each.timestamp or None)
        for each in found.ledgers
    )
    facts = fields(
        topic=topic,
        managed_ledger=found.managed_ledger,
        entries=found.entries,
        size=found.size,
        last_confirmed=str(found.last_confirmed),
        terminated=str(found.terminated) if found.terminated else None,
        owner=str(found.owner) if found.owner else None,
        properties=pairs(found.properties),
        cursors=tuple(found.cursors),
        **_retention(retention),
        metadata_version=found.version,
        warnings=tuple(found.warnings) + _retention_warnings(retention),
    )
    return OutputRecord(facts, (OutputTable("ledgers", LEDGER_COLUMNS, ledgers),))


def _retention(found: RetentionInForce | PoliciesUnavailable) -> dict[str, Value]:
    """Limits and origin; without limits if they cannot be read or are the broker's default, in no node."""
    if isinstance(found, PoliciesUnavailable):
        return {"retention_ms": None, "retention_mb": None, "retention_origin": None}
    if found.origin is RetentionOrigin.DEFAULT:
        return {"retention_ms": None, "retention_mb": None, "retention_origin": "the broker's default"}
    return {
        "retention_ms": found.retention_time_ms,
        "retention_mb": found.retention_size_in_mb,
        "retention_origin": found.origin.value,
    }


def _retention_warnings(found: RetentionInForce | PoliciesUnavailable) -> tuple[str, ...]:
    return (str(found),) if isinstance(found, PoliciesUnavailable) else retention_warnings(found)


def described_partitions(topic: str, found: PartitionedInspection) -> OutputRecord:
    """A partitioned topic's facts and partitions; one without a managed ledger has no values."""
    rows = tuple(_partition(index, each) for index, each in enumerate(found.partitions))
    there = [each for each in found.partitions if each is not None]
    missing = [str(index) for index, each in enumerate(found.partitions) if each is None]
    warnings = [
        f"{found.topic.partition(index)}: {warning}"
        for index, each in enumerate(found.partitions)
        if each is not None
        for warning in each.warnings
    ]
    if missing:
        warnings.insert(0, f"no managed ledger: partition {', '.join(missing)}; `topics create --missing` creates them")
    if found.record.deleted:
        warnings.insert(0, "its deletion has begun: `topics delete` finishes it")
    facts = fields(
        topic=topic,
        partition_count=found.record.partitions,
        entries=sum(each.entries for each in there),
        size=sum(each.size for each in there),
        being_deleted=found.record.deleted,
        properties=pairs(found.record.properties or ()),
        cursors=tuple(sorted({cursor for each in there for cursor in each.cursors})),
        metadata_version=found.version,
        warnings=tuple(warnings),
    )
    return OutputRecord(facts, (OutputTable("partitions", PARTITION_COLUMNS, rows),))


def _partition(index: int, found: TopicInspection | None) -> tuple[int | str | None, ...]:
    if found is None:
        return (index, *([None] * (len(PARTITION_COLUMNS) - 1)))
    return (
        index,
        found.entries,
        found.size,
        len(found.ledgers),
        str(found.last_confirmed),
        str(found.terminated) if found.terminated else None,
        len(found.cursors),
        str(found.owner) if found.owner else None,
    )


def _ledger_state(closed: bool, unconfirmed: bool) -> str:
    if closed:
        return "closed"
    return "open, end unconfirmed" if unconfirmed else "open"
