"""A change of one cursor: planned by reading, then made as the topic's owner, or by recreating an unreadable record."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import mledger
from mledger.admin.cursor_inspection import CursorInspection
from mledger.admin.inspect import Inspector, TopicView
from mledger.admin.undo.undo_file import ChangedRecord
from mledger.admin.undo.undo_plan import saved_cursor
from mledger.cli.cursors.unreadable_records import LEDGER_LEFT, UnreadableCursor, find_unreadable, recreate
from mledger.cli.shared.changes.change_command import ChangeOptions, CommandChange, Facts, read_before, run_change
from mledger.cli.shared.changes.topic_owner import WriteOptions, planned_topic
from mledger.cli.shared.context import CommandContext
from mledger.cli.shared.output.results import OutputRecord, fields, pairs
from mledger.cli.shared.parameters import Place, Time
from mledger.cli.shared.read_only import ReadOnlyCluster
from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.backlog import backlog
from mledger.cursors.compaction import COMPACTION, check_not_advanced
from mledger.cursors.entry_time import find_by_time
from mledger.cursors.plans import plan_new_record
from mledger.cursors.positions import next_valid
from mledger.cursors.recovery import CursorRecoveryPlan
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.paths import TopicName, cursor_names, cursor_path
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import NO_CURSOR_LEDGER


@dataclass(frozen=True, slots=True)
class Target:
    """The cursor that a command changes, and the options for opening its topic."""

    context: CommandContext
    command: str
    topic: TopicName
    cursor: str
    options: WriteOptions
    change: ChangeOptions


@dataclass(frozen=True, slots=True)
class Recreation:
    """How to recreate a cursor whose record does not parse: the record, the ledgers, the new position."""

    cursor: UnreadableCursor
    ledgers: LedgerList
    to: Position | str


Decide = Callable[[TopicView, CursorRecoveryPlan], Awaitable[tuple[Facts, bool]]]
Do = Callable[[mledger.Cursor], Awaitable[None]]


def run_cursor_change(target: Target, decide: Decide, do: Do, recreate_at: Place | None = None) -> None:
    """Run the change; a cursor whose record does not parse is recreated at `recreate_at`, None: an error.

    Raises:
        TopicNotFound, CursorNotFound: there is none.
        RecordError: the topic's record does not parse, or the cursor's, and `recreate_at` is None.
        CursorRecoveryFailed: the cursor's state cannot be read now (R5).
        OwnedElsewhere, BadVersion, UndoFileError: as of `run_change`.
    """
    managed_ledger = target.topic.managed_ledger_name
    recreations: list[Recreation] = []

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        path = await record_path(cluster, target)
        before = await read_before(cluster.metadata, [path])
        relied_on = await read_before(cluster.metadata, [target.topic.managed_ledger_path])
        inspector = Inspector(cluster.metadata, cluster.bookies, target.options.config.password)
        inspected, view = await inspector.cursor_on(str(target.topic), target.cursor)
        damaged = find_unreadable(before[0])
        if damaged is not None and recreate_at is not None:
            to = await place_of_time(view, recreate_at) if isinstance(recreate_at, Time) else recreate_at
            recreations[:] = [Recreation(damaged, view.ledgers, to)]
            return replace(_recreated(target, inspected.name, before, recreations[0]), relied_on=relied_on)
        found = _readable(inspected)
        facts, pending = await decide(view, found)
        in_ledger = inspected.record is not None and inspected.record.cursors_ledger_id != NO_CURSOR_LEDGER
        unconfirmed = ("the state is not confirmed yet",) if found.unconfirmed else ()
        return CommandChange(
            command=target.command,
            subject=f"{target.topic} {inspected.name}",
            plan=OutputRecord(
                fields(topic=str(target.topic), cursor=inspected.name)
                + facts
                + fields(warnings=(*found.warnings, *unconfirmed))
            ),
            before=before,
            managed_ledgers=(managed_ledger,),
            cursors=(saved_cursor(path, found),) if in_ledger else (),
            pending=pending,
            relied_on=relied_on,
        )

    async def act(change: CommandChange) -> Facts:
        planned_at = change.one_by_one()
        if recreations:
            (wanted,) = recreations
            mark_delete = await recreate(target.context.url, change, wanted.cursor, wanted.ledgers, wanted.to)
            return fields(mark_delete=str(mark_delete))
        async with planned_topic(target.context.url, managed_ledger, target.options, change, planned_at) as opened:
            cursor = await opened.open_cursor(target.cursor, create=False)
            await do(cursor)
            await cursor.flush()
            return fields(
                mark_delete=str(cursor.durable_mark_delete),
                backlog=cursor.backlog,
                holes=len(cursor.holes),
                properties=pairs(cursor.cursor_properties.items()),
            )

    run_change(target.context, target.change, plan, act, **target.options.of_change)


def _recreated(target: Target, cursor: str, before: tuple[ChangedRecord, ...], wanted: Recreation) -> CommandChange:
    record = plan_new_record(wanted.ledgers, wanted.to, 0)
    assert record.mark_delete is not None
    if cursor == COMPACTION:  # how far it was is unknown
        check_not_advanced(wanted.ledgers.first_position, record.mark_delete)
    return CommandChange(
        command=target.command,
        subject=f"{target.topic} {cursor}",
        plan=OutputRecord(
            fields(topic=str(target.topic), cursor=cursor)
            + wanted.cursor.facts
            + fields(
                to=str(wanted.to),
                mark_delete_after=str(record.mark_delete),
                backlog_after=backlog(wanted.ledgers, AckState(record.mark_delete)),
                warnings=(LEDGER_LEFT,),
            )
        ),
        before=before,
        managed_ledgers=(target.topic.managed_ledger_name,),
        lost=("the cursor's position, which cannot be read",),
    )


async def record_path(cluster: ReadOnlyCluster, target: Target) -> str:
    """The path of the cursor's record: other programs may have escaped its name differently.

    Raises:
        StoreUnavailable: the metadata store does not answer.
    """
    topic = target.topic.managed_ledger_path
    (children,) = await cluster.metadata.children_many([topic])
    spelled = (f"{topic}/{child}" for child, name in cursor_names(children or ()).items() if name == target.cursor)
    return next(spelled, cursor_path(target.topic.managed_ledger_name, target.cursor))


def _readable(inspected: CursorInspection) -> CursorRecoveryPlan:
    if inspected.plan is None:
        assert inspected.error is not None
        raise inspected.error
    return inspected.plan


async def place_of_time(view: TopicView, time: Time) -> Position | str:
    """The first entry published at or after `time`, as `Cursor.reset_to_time` finds it.

    Raises:
        RecordError: no entry that was read has a time.
        BookieError: an entry cannot be read now.
    """
    before = await find_by_time(lambda: view.ledgers, view.read_entry, time.ms, mledger.publish_time)
    return "earliest" if before is None else next_valid(view.ledgers, before)
