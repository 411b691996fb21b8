"""`mledger cursors list|describe`: the state of subscriptions after a restart."""

from collections.abc import Sequence
from dataclasses import dataclass

import click

from mledger.admin.cursor_inspection import CursorInspection
from mledger.admin.inspect import Inspector
from mledger.bookie.client.tls_settings import BookieTls
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.names import cursor_argument, topic_argument
from mledger.cli.shared.output.results import (
    Output,
    OutputColumn,
    OutputRecord,
    OutputTable,
    Value,
    columns,
    fields,
    pairs,
    texts,
)
from mledger.cli.shared.read_only import read_only_cluster
from mledger.cli.shared.targets import find_targets
from mledger.cursors.acks.entry_bits import bits_of_words
from mledger.cursors.recovery import CursorRecoveryPlan
from mledger.errors import CursorNotFound
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.name_lists import shorten

HOLES_SHOWN = 5
LIST_COLUMNS = columns("cursor", "found_in", "rules", "position", "holes", "backlog", "warnings")
PARTITION_COLUMNS = columns("partition", *(column.key for column in LIST_COLUMNS))


@click.command("list", epilog="Example: mledger cursors list orders")
@topic_argument
@common_options
@click.pass_obj
def list_command(context: CommandContext, topic: str) -> None:
    """List TOPIC's cursors with the state that recovery would give each; change nothing.

    For a partitioned topic, list the cursors of every partition.
    """
    found = context.run(inspect_cursors(context.url, TopicName.parse(topic), None))
    context.output.table(cursor_table(found, context.output))
    raise_first_error(found)


@click.command(epilog="Example: mledger cursors describe orders billing")
@topic_argument
@cursor_argument
@common_options
@click.pass_obj
def describe(context: CommandContext, topic: str, cursor: str) -> None:
    """Show CURSOR's record and the state that recovery would give it; change nothing.

    For a partitioned topic, show the whole subscription, and its cursor on every partition.
    """
    name = TopicName.parse(topic)
    found = context.run(inspect_cursors(context.url, name, cursor))
    raise_first_error(found)
    if found[0].topic == name:
        context.output.record(_describe(topic, found[0].cursor, context.output))
    else:
        context.output.record(_describe_whole(topic, cursor, found, context.output))


@dataclass(frozen=True, slots=True)
class FoundCursor:
    """A cursor, and its topic: the requested one, or a partition of it."""

    topic: TopicName
    cursor: CursorInspection


def raise_first_error(found: Sequence[FoundCursor]) -> None:
    """Raise the error of the first cursor that could not be shown; the others are shown."""
    for each in found:
        if each.cursor.error is not None:
            raise each.cursor.error


def cursor_table(found: Sequence[FoundCursor], output: Output, key: str = "cursors") -> OutputTable:
    """One row per cursor; for people, only columns with information."""
    partitioned = any(each.topic.partition_index is not None for each in found)
    shown = PARTITION_COLUMNS if output.for_programs or partitioned else LIST_COLUMNS
    rows = [_row(each.cursor) for each in found]
    if shown is PARTITION_COLUMNS:
        rows = [(each.topic.partition_index, *row) for each, row in zip(found, rows, strict=True)]
    batches = [_batch_count(each.cursor) for each in found]
    if output.for_programs or any(batches):
        shown = (*shown, *columns("partial_batches"))
        rows = [(*row, count) for row, count in zip(rows, batches, strict=True)]
    return OutputTable(key, shown, tuple(rows))


def _batch_count(found: CursorInspection) -> int | None:
    """The number of partly acknowledged batches."""
    return None if found.plan is None else len(found.plan.acks.batch_deletions())


def _row(found: CursorInspection) -> tuple[Value, ...]:
    plan = found.plan
    if plan is None:
        return (found.name, None, None, None, None, None, (str(found.error),))
    return (
        plan.cursor,
        plan.source,
        plan.rules,
        str(plan.mark_delete),
        plan.acks.range_count,
        plan.backlog,
        plan.warnings,
    )


def _describe_whole(topic: str, cursor: str, found: Sequence[FoundCursor], output: Output) -> OutputRecord:
    """A subscription of a partitioned topic: its sums, and its cursor on every partition that has one."""
    plans = [each.cursor.plan for each in found if each.cursor.plan is not None]
    facts = fields(
        topic=topic,
        cursor=cursor,
        partitions=len(found),
        backlog=sum(plan.backlog for plan in plans),
        holes=sum(plan.acks.range_count for plan in plans),
        partial_batches=sum(len(plan.acks.batch_deletions()) for plan in plans),
    )
    return OutputRecord(facts, (cursor_table(found, output, "partition_cursors"),))


def _describe(topic: str, found: CursorInspection, output: Output) -> OutputRecord:
    facts = fields(topic=topic, cursor=found.name, metadata_version=found.version)
    if found.record is not None:
        facts += fields(cursor_ledger=found.record.cursors_ledger_id, snapshot=_text(found.record.mark_delete))
    plan = found.plan
    if plan is None:
        return OutputRecord(facts)
    holes = texts(plan.acks.ranges())
    shown: Value = holes if output.for_programs else shorten(holes, HOLES_SHOWN)
    return OutputRecord(
        (
            *facts,
            *fields(
                found_in=plan.source,
                rules=plan.rules,
                mark_delete=str(plan.mark_delete),
                read_position=str(plan.read_position),
                backlog=plan.backlog,
                holes=plan.acks.range_count,
                hole_ranges=shown,
                moves_to=_text(plan.move_to),
                properties=pairs(plan.properties),
                cursor_properties=pairs(plan.cursor_properties),
                warnings=plan.warnings,
            ),
            *_partial_batches(plan, output),
        )
    )


def _partial_batches(plan: CursorRecoveryPlan, output: Output) -> tuple[tuple[OutputColumn, Value], ...]:
    """Partly acknowledged batches, with their unacknowledged indexes; for people only if there are any."""
    batches = [(str(each.position), tuple(map(int, bits_of_words(each.words)))) for each in plan.acks.batch_deletions()]
    if output.for_programs:
        left: Value = tuple({"position": position, "unacknowledged": indexes} for position, indexes in batches)
        return fields(partial_batches=left)
    described = [f"{position} lacks {', '.join(map(str, indexes))}" for position, indexes in batches]
    return fields(partial_batches=shorten(described, HOLES_SHOWN)) if described else ()


def _text(position: Position | None) -> str | None:
    return None if position is None else str(position)


async def inspect_cursors(
    url: str, topic: TopicName, cursor: str | None, tls: BookieTls | None = None
) -> list[FoundCursor]:
    """The cursors of the topic or of its partitions, or only `cursor`; `tls` as in `read_only_cluster`.

    Raises CursorNotFound if no partition has it.
    """
    found: list[FoundCursor] = []
    missing: CursorNotFound | None = None
    async with read_only_cluster(url, tls) as cluster:
        plain = await cluster.metadata.exists(topic.managed_ledger_path) is not None
        topics = (topic,) if plain else (await find_targets(cluster, topic)).topics
        inspector = Inspector(cluster.metadata, cluster.bookies)
        for each in topics:
            try:
                found += [FoundCursor(each, one) for one in await inspector.cursors(str(each), cursor)]
            except CursorNotFound as error:
                missing = error
    if not found and missing is not None:
        raise missing
    return found
