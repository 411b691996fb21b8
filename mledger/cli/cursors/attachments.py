"""Ledgers and topics to delete with a cursor: ledgers that it names, and its pending-ack topic."""

from dataclasses import dataclass

from mledger.admin.inspect import Inspector
from mledger.admin.references.attached_ledgers import find_attached, pending_ack_topics
from mledger.admin.topic_plans import lost_ledgers
from mledger.admin.undo.undo_file import ChangedRecord, SavedCursor
from mledger.cli.ledgers.deletion_table import (
    NAMED_COLUMNS,
    Row,
    attached_rows,
    attached_to,
    data_rows,
    ledgers_to_lose,
    lost_attached,
)
from mledger.cli.shared.changes.topic_targets import records_of, states_kept_and_lost
from mledger.cli.shared.output.results import OutputTable
from mledger.cli.shared.read_only import ReadOnlyCluster
from mledger.cli.shared.targets import Targets
from mledger.metastore.records.paths import TopicName


@dataclass(frozen=True, slots=True)
class AttachedToCursor:
    """The ledgers and topics to delete with a cursor, as a plan shows them."""

    ledgers: tuple[int, ...] = ()
    topics: tuple[TopicName, ...] = ()
    before: tuple[ChangedRecord, ...] = ()
    cursors: tuple[SavedCursor, ...] = ()
    rows: tuple[Row, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def tables(self) -> tuple[OutputTable, ...]:
        """The ledgers to delete."""
        return (OutputTable("ledgers", NAMED_COLUMNS, self.rows),)


async def find_attached_to(
    cluster: ReadOnlyCluster, inspector: Inspector, password: bytes, topic: TopicName, cursor: str, path: str
) -> AttachedToCursor:
    """Find what to delete with the cursor whose record is at `path`; read-only. Raises RecordError."""
    named = await find_attached(cluster.metadata, cluster.bookies, topic.managed_ledger_name, [path])
    rows, lost = attached_rows(topic, named), lost_attached(topic, named)
    ledgers = tuple(each.ledger_id for each in named.ledgers)
    found = await pending_ack_topics(cluster.metadata, topic, [cursor])
    if not found:
        return AttachedToCursor(ledgers, rows=tuple(rows), lost=tuple(lost))
    (acks,) = found
    before = await records_of(cluster, Targets(acks, None, (acks,)))
    of_acks, unknown = await ledgers_to_lose(cluster, acks, password, before)
    beside = await attached_to(cluster, acks, before)
    saved, unsaved = await states_kept_and_lost(inspector, acks, before)
    rows += [*data_rows(acks, of_acks), *attached_rows(acks, beside)]
    lost += [*lost_ledgers(str(acks), of_acks), *unknown, *unsaved, *lost_attached(acks, beside)]
    return AttachedToCursor(ledgers, (acks,), before, saved, tuple(rows), tuple(lost))
