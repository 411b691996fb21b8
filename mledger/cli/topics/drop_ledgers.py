"""`mledger topics drop-ledgers`: removes ledgers from a topic's list, with a plan and an undo file."""

from collections.abc import Sequence

import click
from msgspec.structs import replace

from mledger.admin.cursor_inspection import CursorInspection
from mledger.admin.inspect import Inspector
from mledger.admin.undo.undo_file import ChangedRecord
from mledger.bookie.errors import BookieError
from mledger.cli.ledgers.changes import take_over_option
from mledger.cli.ledgers.deletion_table import left_in_tiered_storage
from mledger.cli.shared.changes import change_command
from mledger.cli.shared.changes.change_command import (
    ChangeOptions,
    CommandChange,
    Facts,
    change_options,
    read_before,
    run_change,
)
from mledger.cli.shared.changes.writer_fence import fence_ledger
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.names import topic_argument
from mledger.cli.shared.output.results import OutputRecord, OutputTable, Value, columns, fields
from mledger.cli.shared.read_only import ReadOnlyCluster
from mledger.cli.shared.targets import find_targets
from mledger.errors import InvalidLedgerList
from mledger.ledgers.orphans.pending_records import ensure_folders, fits_one_write, kept_record, write_ahead
from mledger.metastore.errors import RecordError
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.records.paths import TopicName, is_possible_ledger, kept_path, ledger_path
from mledger.metastore.records.values import Decoded, ManagedLedgerInfo
from mledger.metastore.store import Check, MetadataReader, Put
from mledger.metastore.url import open_store
from mledger.metastore.write_verification import multi_own

LEDGER_COLUMNS = columns("ledger_id", "entries", "size", "closed_ms", "cursors")
STILL_THERE = "the ledgers stay, but nothing will read them: `ledgers delete --force` deletes them"


@click.command("drop-ledgers", epilog="Example: mledger topics drop-ledgers orders 12 13 --dry-run")
@topic_argument
@click.argument("ledger_ids", metavar="LEDGER_ID...", type=int, nargs=-1, required=True)
@take_over_option
@change_options
@common_options
@click.pass_obj
def drop_ledgers(
    context: CommandContext, topic: str, ledger_ids: tuple[int, ...], take_over: bool, change: ChangeOptions
) -> None:
    """Remove the ledgers LEDGER_ID from the list of TOPIC: readers then skip their entries.

    For ledgers that cannot be read and block the topic. Undo lists them again. The topic is not
    opened; at its next open, cursors in such a ledger continue after it (rules R6, R7).
    """
    name = TopicName.parse(topic)
    dropped = frozenset(ledger_ids)

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        targets = await find_targets(cluster, name)
        if targets.partitioned is not None:
            raise click.UsageError(f"{name} is partitioned: name one of its partitions, such as {name.partition(0)}")
        (before,) = await read_before(cluster.metadata, [name.managed_ledger_path])
        info = _decoded(before).value
        cursors, unseen = await _cursors(Inspector(cluster.metadata, cluster.bookies), name)
        listed = {ledger.ledger_id for ledger in info.ledgers}
        marks = await read_before(cluster.metadata, await _to_keep(cluster.metadata, sorted(dropped & listed)))
        facts = fields(
            topic=str(name),
            ledgers_left=len(listed - dropped),
            not_listed=tuple(sorted(dropped - listed)),
            warnings=plan_warnings(name, info, dropped) + unseen,
        )
        return CommandChange(
            command="topics drop-ledgers",
            subject=str(name),
            plan=OutputRecord(facts, (OutputTable("ledgers", LEDGER_COLUMNS, _rows(info, dropped, cursors)),)),
            before=(before, *(mark for mark in marks if mark.before is None)),
            managed_ledgers=(name.managed_ledger_name,),
            pending=bool(dropped & listed),
        )

    async def act(planned: CommandChange) -> Facts:
        record = planned.before[0]
        assert record.before is not None
        decoded = _decoded(record)
        info = without_ledgers(decoded.value, dropped)
        async with await open_store(context.url) as store:
            change_command.on_step("drop ledgers")
            data = encode_managed_ledger_info(info, compression=decoded.compression)
            unmarked = {mark.path for mark in planned.before[1:]}
            marks = [
                kept_record(each, name.managed_ledger_name) for each in sorted(dropped) if kept_path(each) in unmarked
            ]
            await ensure_folders(store)
            if not fits_one_write(data, marks):
                await write_ahead(store, [(mark,) for mark in marks], Check(record.path, record.before.version))
                marks = []
            await multi_own(store, [Put(record.path, data, record.before.version), *marks])
            version = record.before.version + 1
            planned.left_at[name.managed_ledger_name] = version
            last = decoded.value.ledgers[-1].ledger_id
            if last in dropped:
                change_command.on_step("fence writer")
                await fence_ledger(store, name.managed_ledger_name, last)
        return fields(still_listed=tuple(ledger.ledger_id for ledger in info.ledgers), metadata_version=version)

    run_change(context, change, plan, act, take_over=take_over)


def without_ledgers(info: ManagedLedgerInfo, dropped: frozenset[int]) -> ManagedLedgerInfo:
    """The record without the ledgers `dropped`."""
    return replace(info, ledgers=tuple(ledger for ledger in info.ledgers if ledger.ledger_id not in dropped))


def _decoded(record: ChangedRecord) -> Decoded[ManagedLedgerInfo]:
    assert record.before is not None  # the topic was found
    return decode_managed_ledger_info(record.before.data, record.path)


async def _to_keep(reader: MetadataReader, dropped: Sequence[int]) -> list[str]:
    """The paths of the records that those of the ledgers are kept which exist: else they may count as trimmed later."""
    possible = [each for each in dropped if is_possible_ledger(each)]
    nodes = await reader.get_many([ledger_path(each) for each in possible])
    return [kept_path(each) for each, node in zip(possible, nodes, strict=True) if node is not None]


async def _cursors(inspector: Inspector, topic: TopicName) -> tuple[Sequence[CursorInspection], tuple[str, ...]]:
    """The topic's cursors, or a warning: the ledgers to drop may be what keeps the topic from being read."""
    try:
        return await inspector.cursors(str(topic)), ()
    except (BookieError, RecordError, InvalidLedgerList) as error:
        return (), (f"which cursors stand in these ledgers is unknown: {error}",)


def _rows(
    info: ManagedLedgerInfo, dropped: frozenset[int], cursors: Sequence[CursorInspection]
) -> tuple[tuple[Value, ...], ...]:
    """The ledgers to drop, each with the cursors whose mark-delete is in it."""
    standing: dict[int, list[str]] = {}
    for cursor in cursors:
        if cursor.plan is not None:
            standing.setdefault(cursor.plan.mark_delete.ledger_id, []).append(cursor.name)
    return tuple(
        (
            ledger.ledger_id,
            ledger.entries if ledger.timestamp else None,
            ledger.size if ledger.timestamp else None,
            ledger.timestamp or None,
            tuple(standing.get(ledger.ledger_id, ())),
        )
        for ledger in info.ledgers
        if ledger.ledger_id in dropped
    )


def plan_warnings(topic: TopicName, info: ManagedLedgerInfo, dropped: frozenset[int]) -> tuple[str, ...]:
    """What else dropping these ledgers means: for them, for their copies in tiered storage, and for readers."""
    going = [ledger for ledger in info.ledgers if ledger.ledger_id in dropped]
    found = [STILL_THERE] if going else []
    found += left_in_tiered_storage(topic, going)
    if info.ledgers and info.ledgers[-1].ledger_id in dropped:
        found.append("the last ledger is dropped: its unread entries will be unreachable")
    return tuple(found)
