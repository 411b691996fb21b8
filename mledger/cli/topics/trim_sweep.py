"""`mledger topics trim`: deletes unneeded ledgers of a topic, of a namespace's topics, or of all.

For many topics there is one plan, one question and one undo file. A topic that cannot be planned or
trimmed is reported with the reason, and does not stop the others.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import click

import mledger
from mledger.admin.inspect import Inspector, OpeningView
from mledger.admin.policies.trim_policy import check_retention_known
from mledger.admin.topic_plans import lost_ledgers, plan_topic_trim
from mledger.admin.undo.undo_file import ChangedRecord
from mledger.cli.shared.changes import change_command
from mledger.cli.shared.changes.change_command import (
    ChangeOptions,
    ChangePart,
    CommandChange,
    Facts,
    change_options,
    planned_at,
    run_change,
)
from mledger.cli.shared.changes.topic_owner import WriteOptions, check_planned, closing, write_options
from mledger.cli.shared.changes.topic_targets import records_of_each, saved_states
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.errors import OK, exit_code, one_line
from mledger.cli.shared.messages import messages
from mledger.cli.shared.output.results import Output, OutputRecord, OutputTable, columns, fields
from mledger.cli.shared.read_only import ReadOnlyCluster
from mledger.cli.shared.targets import TopicSelection, scope_arguments
from mledger.cli.topics.changes import run_trim, trim_now
from mledger.cli.topics.subject import Subject
from mledger.cursors.compaction import why_never_trimmed
from mledger.errors import ManagedLedgerFenced, OwnedElsewhere, ShadowTopic, TopicChanged, TopicNotFound
from mledger.events import Event, EventSink, RemovingLedger
from mledger.ledgers.ownership import check_owner, find_owner
from mledger.ledgers.retention import RetentionInForce, retention_in_force, retention_warnings
from mledger.ledgers.shadow_topics import refuse_shadow
from mledger.ledgers.trim_plan import TrimPlan
from mledger.metastore.errors import BadVersion, MetadataAccessDenied, MledgerError, StoreUnavailable
from mledger.metastore.records.paths import TopicName
from mledger.metastore.runtime.times import wall_clock_ms

COMMAND = "topics trim"
PAGE = 200
AT_ONCE = 16
POLICIES_AGE_S = 10.0
"""The maximum age of a namespace's policies for planning; trimming itself reads them again."""
PULSARS_OWN = "__"
SWEEP_COLUMNS = columns("topic", "ledgers_deleted", "entries_deleted", "bytes_deleted", "retention_origin")


@dataclass(frozen=True, slots=True)
class TrimOfTopic:
    """The trim of one topic; `part` has what undo needs."""

    topic: TopicName
    plan: TrimPlan
    retention: RetentionInForce
    part: ChangePart


OF_OTHERS = TopicChanged | TopicNotFound | OwnedElsewhere | ManagedLedgerFenced
"""Errors after which a topic's records are what somebody else made of them."""


@dataclass(frozen=True, slots=True)
class LeftTopic:
    """A topic that is not trimmed, and why; `code` is the exit code for it, 0 if that is not an error.

    `untouched`: another owner has it, or had it since the plan was made; what its records say now is that one's.
    """

    topic: TopicName
    reason: str
    code: int = OK
    untouched: bool = False

    @classmethod
    def by(cls, topic: TopicName, error: MledgerError) -> "LeftTopic":
        """The topic, not trimmed because of `error`."""
        code = OK if isinstance(error, ShadowTopic) else exit_code(error)
        return cls(topic, one_line(error), code, isinstance(error, OF_OTHERS))


@dataclass(frozen=True, slots=True)
class PlannedTrims:
    """The topics to trim, those that are not trimmed, and the number of topics read."""

    looked_at: int
    trims: tuple[TrimOfTopic, ...]
    left: tuple[LeftTopic, ...]


@click.command(epilog="Example: mledger topics trim --namespace shop/eu --dry-run")
@scope_arguments
@change_options
@write_options
@common_options
@click.pass_obj
def trim(
    context: CommandContext,
    topic: str | None,
    namespace: str | None,
    every: bool,
    options: WriteOptions,
    change: ChangeOptions,
) -> int:
    """Delete the ledgers of one or many topics that all cursors have consumed and retention does not keep.

    Retention is that of the topic's policies, else of its namespace's policies, else of the
    brokers' settings, which --config or --set give (rules M10, R9, R10). If policies cannot be read,
    nothing is deleted. If several topics are selected, those that are owned or cannot be read are
    reported and skipped; the others are trimmed.
    """
    scope = TopicSelection.of(topic, namespace, every)
    if scope.topic is not None:
        run_trim(Subject(context, COMMAND, scope.topic, options, change), truncate=False)
        return OK
    return _trim_many(context, scope, options, change)


def plan_trim_of(
    topic: TopicName,
    view: OpeningView,
    retention: RetentionInForce,
    records: Sequence[ChangedRecord],
    now_ms: int,
) -> TrimOfTopic | LeftTopic | None:
    """The trim of `topic`, or why it is not trimmed; None if nothing would be deleted.

    `records` are its nodes as read before `view`. Raises ShadowTopic, and the error if a cursor's
    state cannot be read.
    """
    refuse_shadow(topic.managed_ledger_name, view.info)
    plan = plan_topic_trim(topic, view, retention, now_ms)
    if len(plan.remaining) > 1 and (never := why_never_trimmed(topic, {cursor.name for cursor in view.cursors})):
        return LeftTopic(topic, never)
    if not plan.deletions:
        return None
    if topic.local_name.startswith(PULSARS_OWN) and not view.cursors:
        return LeftTopic(
            topic, "it is one of Pulsar's system topics and has no cursors: to trim it anyway, give its name"
        )
    cursors = saved_states(view.cursors, records)
    lost = lost_ledgers(str(topic), plan.deletions)
    return TrimOfTopic(topic, plan, retention, ChangePart(topic.managed_ledger_name, tuple(records), cursors, lost))


def plan_change(scope: TopicSelection, planned: PlannedTrims) -> CommandChange:
    """The change that carries out the planned trims, as shown and undone."""
    rows = tuple(
        (
            str(each.topic),
            len(each.plan.deletions),
            sum(ledger.entries for ledger in each.plan.deletions),
            sum(ledger.size for ledger in each.plan.deletions),
            each.retention.origin.value,
        )
        for each in planned.trims
    )
    facts = fields(
        topics=planned.looked_at,
        topics_to_trim=len(rows),
        ledgers_deleted=sum(row[1] for row in rows),
        entries_deleted=sum(row[2] for row in rows),
        bytes_deleted=sum(row[3] for row in rows),
        warnings=tuple(
            f"{each.topic}: {warning}" for each in planned.trims for warning in retention_warnings(each.retention)
        ),
    )
    left = tuple((str(each.topic), each.reason) for each in planned.left)
    tables = (OutputTable("to_trim", SWEEP_COLUMNS, rows), OutputTable("left", columns("topic", "reason"), left))
    change = CommandChange(COMMAND, str(scope), OutputRecord(facts, tables), (), pending=bool(rows))
    return change.with_parts([each.part for each in planned.trims])


def exit_code_of(left: Iterable[LeftTopic]) -> int:
    """The exit code of the first topic whose failure is an error."""
    return next((each.code for each in left if each.code != OK), OK)


def _trim_many(context: CommandContext, scope: TopicSelection, options: WriteOptions, change: ChangeOptions) -> int:
    left: list[LeftTopic] = []
    found: list[PlannedTrims] = []

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        planned = await _plan(context.output, cluster, scope, options, read_only=change.dry_run)
        found.append(planned)
        left.extend(planned.left)
        return plan_change(scope, planned)

    async def act(change: CommandChange) -> Facts:
        still = set(change.managed_ledgers)
        for each in found[-1].trims:
            if each.part.managed_ledger not in still:
                path = each.topic.managed_ledger_path
                left.append(LeftTopic.by(each.topic, BadVersion("it has changed since the plan was made", path)))
        trims = [each for each in found[-1].trims if each.part.managed_ledger in still]
        change.untouched.update({each.part.managed_ledger: () for each in trims})
        removed, failed = await _carry_out(context, options, trims, change)
        left.extend(failed)
        return fields(
            trimmed=len(trims) - len(failed),
            removed=tuple(event.ledger_id for event in removed),
            bytes_removed=sum(event.size for event in removed),
            not_trimmed=tuple({"topic": str(each.topic), "reason": each.reason} for each in left),
        )

    run_change(context, change, plan, act, **options.of_change)
    if change.dry_run:
        return OK
    for each in left:
        if each.code != OK:
            messages.error(f"{each.topic} was not trimmed: {each.reason}", each.code)
    return exit_code_of(left)


async def _plan(
    output: Output, cluster: ReadOnlyCluster, scope: TopicSelection, options: WriteOptions, *, read_only: bool
) -> PlannedTrims:
    topics = await scope.topics(cluster)
    found: list[TrimOfTopic | LeftTopic | None] = []
    planner = _TopicPlanner(cluster, options, read_only=read_only)
    with output.progress("reading", "topics") as progress:
        task = progress.add_task("", total=len(topics))
        for start in range(0, len(topics), PAGE):
            page = topics[start : start + PAGE]
            records = await records_of_each(cluster, page)
            found += await asyncio.gather(*(planner.plan(each, records[each]) for each in page))
            progress.advance(task, len(page))
    return PlannedTrims(
        len(topics),
        tuple(each for each in found if isinstance(each, TrimOfTopic)),
        tuple(each for each in found if isinstance(each, LeftTopic)),
    )


class _TopicPlanner:
    """Plans the trims of topics, some of them concurrently, and checks their owners."""

    def __init__(self, cluster: ReadOnlyCluster, options: WriteOptions, *, read_only: bool) -> None:
        self._reader = cluster.metadata
        self._inspector = Inspector(cluster.metadata, cluster.bookies, options.config.password)
        self._policies = options.policy_reader(cluster)
        self._options = options
        self._read_only = read_only
        self._at_once = asyncio.Semaphore(AT_ONCE)

    async def plan(
        self, topic: TopicName, records: Sequence[ChangedRecord] | MetadataAccessDenied
    ) -> TrimOfTopic | LeftTopic | None:
        """Plan as `plan_trim_of` does; an error becomes the reason why the topic is not trimmed."""
        if isinstance(records, MetadataAccessDenied):
            return LeftTopic.by(topic, records)
        try:
            async with self._at_once:
                view = await self._inspector.opening(str(topic))
                policies = await self._policies.policies(topic.managed_ledger_name, max_age_s=POLICIES_AGE_S)
                retention = retention_in_force(policies, self._options.config)
            found = plan_trim_of(topic, view, retention, records, wall_clock_ms())
            if isinstance(found, TrimOfTopic):
                given = self._options.retention_given
                await check_retention_known(self._reader, topic.managed_ledger_name, retention, given=given)
                await self._check_owner(topic.managed_ledger_name)
        except StoreUnavailable:
            raise
        except TopicNotFound:
            return None  # deleted since it was listed
        except MledgerError as error:
            return LeftTopic.by(topic, error)
        return found

    async def _check_owner(self, managed_ledger: str) -> None:
        """Raise OwnedElsewhere if there is an owner; unless read-only, wait for a dead one to go."""
        if self._options.take_over:
            return
        if not self._read_only:
            await check_owner(self._reader, managed_ledger, session_timeout=self._options.session_timeout)
        elif owner := await find_owner(self._reader, managed_ledger):
            raise OwnedElsewhere(f"{managed_ledger} has an owner: {owner}")


async def _carry_out(
    context: CommandContext, options: WriteOptions, trims: Sequence[TrimOfTopic], change: CommandChange
) -> tuple[list[RemovingLedger], list[LeftTopic]]:
    """Trim one topic after another; returns the deleted ledgers, and the topics that failed."""
    removed: list[RemovingLedger] = []
    failed: list[LeftTopic] = []

    def note(event: Event) -> None:
        if isinstance(event, RemovingLedger):
            removed.append(event)

    async with options.open_cluster(context.url) as cluster:
        with context.output.progress("trimming", "topics") as progress:
            task = progress.add_task("", total=len(trims))
            for each in trims:
                try:
                    await _trim_one(cluster, options, each, change, note)
                except StoreUnavailable:
                    raise
                except MledgerError as error:
                    left = LeftTopic.by(each.topic, error)
                    failed.append(left)
                    if left.untouched:  # at once: what interrupts a later topic ends the sweep
                        change.untouched[each.part.managed_ledger] = ()
                progress.advance(task)
    return removed, failed


async def _trim_one(
    cluster: mledger.Cluster, options: WriteOptions, each: TrimOfTopic, change: CommandChange, events: EventSink
) -> None:
    """Open the topic and trim it; from the first step on, its records count as written."""
    name = each.part.managed_ledger

    def step(what: str) -> None:
        change.touch(name)
        change_command.on_step(what)

    opening = cluster.open_topic(str(each.topic), take_over=options.take_over, trim=False, events=events, on_step=step)
    async with closing(await opening) as opened:
        if not options.take_over:
            check_planned(opened, planned_at([name], each.part.before).get(name))
        await trim_now(opened, each.plan)
