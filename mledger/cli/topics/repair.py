"""`mledger topics repair`: finds and repairs damage in topics' records, with a plan and an undo file."""

from collections import defaultdict
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import partial

import click

from mledger.admin.references.ledger_audit import APART, LedgerAuditor
from mledger.admin.repair.ledger_mends import Wrong
from mledger.admin.repair.repair_plan import RepairPlan, TopicFacts, plan_repair
from mledger.admin.repair.repairer import FURTHER_RECORDS, RECORDS_WRITTEN, FactsReader
from mledger.admin.repair.repairer import repair as carry_out
from mledger.admin.undo.undo_file import ChangedRecord
from mledger.admin.undo.undo_plan import saved_cursor
from mledger.bookie.client.client import BookKeeper
from mledger.bookie.client.config import ClientConfig
from mledger.cli.ledgers.changes import take_over_option
from mledger.cli.ledgers.check import min_age_option
from mledger.cli.shared.changes import change_command
from mledger.cli.shared.changes.change_command import (
    ChangeOptions,
    CommandChange,
    Facts,
    change_options,
    read_before,
    run_change,
)
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.errors import FAILED, OK, exit_code, one_line
from mledger.cli.shared.messages import messages
from mledger.cli.shared.output.results import Output, OutputRecord, OutputTable, Value, columns, fields
from mledger.cli.shared.read_only import ReadOnlyCluster, report_waiting
from mledger.cli.shared.targets import TopicSelection, scope_arguments
from mledger.errors import InvalidLedgerList, ShadowTopic
from mledger.ledgers.orphans.pending_records import read_kept, read_records
from mledger.ledgers.orphans.references import LedgerOrigin
from mledger.metastore.errors import BadVersion, InvalidName, MledgerError
from mledger.metastore.records.paths import TopicName, kept_path, ledger_path, managed_ledger_path
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.metastore.url import open_store

PAGE = 200
MEND_COLUMNS = columns("topic", "wrong", "ledger_id", "cursor", "mend")
RepairPlanner = Callable[[TopicFacts, int], RepairPlan]
"""Decides how a topic is repaired, at a time in ms."""


@dataclass(frozen=True, slots=True)
class NotLookedAt:
    """A topic without a plan, and why; `code` is the exit code for it, 0 if that is not an error."""

    managed_ledger: str
    reason: str
    code: int

    @classmethod
    def by(cls, managed_ledger: str, error: MledgerError) -> "NotLookedAt":
        """The topic, which cannot be repaired because of `error`."""
        return cls(managed_ledger, one_line(error), OK if isinstance(error, ShadowTopic) else exit_code(error))


@dataclass(frozen=True, slots=True)
class Planned:
    """The plans for topics, the reasons why others could not be read, and ledgers that may be another cluster's."""

    plans: tuple[RepairPlan, ...]
    failed: tuple[NotLookedAt, ...]
    apart: tuple[LedgerOrigin, ...]

    @property
    def pending(self) -> tuple[RepairPlan, ...]:
        """The plans with something to do."""
        return tuple(plan for plan in self.plans if plan.pending)


@click.command(epilog="Example: mledger topics repair --namespace public/default --dry-run")
@scope_arguments
@min_age_option
@click.option("--relist", is_flag=True, help="List ledgers again that a topic's list has lost.")
@click.option("--gone-topics", is_flag=True, help="Delete ledgers with entries whose topic does not exist, too.")
@take_over_option
@change_options
@common_options
@click.pass_obj
def repair(
    context: CommandContext,
    topic: str | None,
    namespace: str | None,
    every: bool,
    min_age: int,
    relist: bool,
    gone_topics: bool,
    take_over: bool,
    change: ChangeOptions,
) -> int:
    """Find and repair damage in the records of TOPIC, of a namespace's topics, or of all topics.

    Lost ledgers are removed from the list. Wrong counts of closed ledgers are corrected. Cursors
    whose cursor ledger is lost fall back to their snapshot (R4); those whose position is in no
    ledger are moved (R6, R7). Ledgers that nothing names are deleted, unless they have entries and
    their topic or its list seems to have been lost. Deletions and creations that a crash interrupted
    are finished. Records that cannot be read now are not changed; the exit code tells if a topic
    could not be looked at.
    """
    scope = TopicSelection.of(topic, namespace, every)
    found: list[Planned] = []

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        decide = partial(plan_repair, relist=relist, gone_topics=gone_topics)
        planned = await _plan(context.output, cluster, scope, min_age * 1000, decide)
        found.append(planned)
        return await _change(cluster, scope, planned)

    async def act(change: CommandChange) -> Facts:
        change.untouched.update({each.managed_ledger: list(map(ledger_path, each.delete)) for each in found[0].pending})
        deleted = 0
        async with await open_store(context.url) as store:
            bookkeeper = BookKeeper(store, ClientConfig())
            bookkeeper.on_waiting = report_waiting()
            try:
                for each in found[0].pending:
                    deleted += len(
                        await carry_out(each, store, bookkeeper, partial(_step, change, each.managed_ledger))
                    )
            finally:
                await bookkeeper.close()
        return fields(repaired=len(found[0].pending), deleted_ledgers=deleted)

    run_change(context, change, plan, act, take_over=take_over)
    errors = [each for each in found[-1].failed if each.code != OK]
    for each in errors:
        messages.error(f"{_topic(each.managed_ledger)} was not looked at: {each.reason}", each.code)
    return errors[0].code if errors else OK


def _step(change: CommandChange, managed_ledger: str, name: str) -> None:
    """Note that the topic's repair has begun, and when its records are written: before, what they say is not ours."""
    change.begun.add(managed_ledger)
    if name in (FURTHER_RECORDS, RECORDS_WRITTEN):
        change.touch(managed_ledger)
    change_command.on_step(name)


async def _plan(
    output: Output, cluster: ReadOnlyCluster, scope: TopicSelection, min_age_ms: int, decide: RepairPlanner
) -> Planned:
    now_ms = wall_clock_ms()
    names = dict.fromkeys(each.managed_ledger_name for each in await scope.topics(cluster))
    with output.progress("reading", "ledgers and topics") as progress:
        task = progress.add_task("", total=None)
        auditor = LedgerAuditor(cluster.metadata, cluster.bookies)
        audit = await auditor.audit(now_ms, min_age_ms, lambda _, count: progress.advance(task, count))
        orphans: dict[str, list[LedgerOrigin]] = defaultdict(list)
        for origin in (*audit.orphans, *(each.origin for each in audit.unlisted)):
            if _is_of(scope, names, origin):
                orphans[origin.managed_ledger].append(origin)
        records, kept = await read_records(cluster.metadata), await read_kept(cluster.metadata)
        gone = {name for name in orphans if name not in names}
        reader = FactsReader(cluster.metadata, cluster.bookies)
        found: list[RepairPlan | NotLookedAt] = [_no_topic(name) for name in sorted(gone) if not _can_be(name)]

        wanted = [*names, *(name for name in sorted(gone) if _can_be(name))]
        for start in range(0, len(wanted), PAGE):
            page = wanted[start : start + PAGE]
            facts = await reader.read(page, orphans, records, kept)
            found += [_plan_one(name, each, now_ms, decide) for name, each in zip(page, facts, strict=True)]
            progress.advance(task, len(page))
    plans = tuple(each for each in found if isinstance(each, RepairPlan))
    failed = tuple(each for each in found if isinstance(each, NotLookedAt))
    apart = (each.origin for each in audit.undecided if each.reason == APART)
    return Planned(plans, failed, tuple(each for each in apart if _is_of(scope, names, each)))


def _plan_one(
    name: str, facts: TopicFacts | MledgerError, now_ms: int, decide: RepairPlanner
) -> RepairPlan | NotLookedAt:
    """The plan, or the topic and the reason why there is none."""
    if isinstance(facts, MledgerError):
        return NotLookedAt.by(name, facts)
    try:
        return decide(facts, now_ms)
    except InvalidLedgerList as error:
        return NotLookedAt.by(name, error)


def _can_be(managed_ledger: str) -> bool:
    """Whether there can be a managed ledger of this name, which a ledger's metadata tells."""
    try:
        managed_ledger_path(managed_ledger)
    except InvalidName:
        return False
    return True


def _no_topic(managed_ledger: str) -> NotLookedAt:
    reason = (
        "no managed ledger can have this name: `ledgers check --all` lists its ledgers, `ledgers delete` deletes them"
    )
    return NotLookedAt(managed_ledger, reason, FAILED)


def _is_of(scope: TopicSelection, names: Container[str], origin: LedgerOrigin) -> bool:
    """Whether the ledger is of one of the topics `names`, or of one in the scope that is gone."""
    return origin.managed_ledger in names or _is_gone(scope, origin.managed_ledger)


def _is_gone(scope: TopicSelection, managed_ledger: str) -> bool:
    """Whether the scope includes a managed ledger that no longer exists, so its orphans are deleted."""
    if scope.topic is not None or not managed_ledger:
        return False
    return not scope.namespace or managed_ledger.startswith(f"{scope.namespace}/")


async def _change(cluster: ReadOnlyCluster, scope: TopicSelection, planned: Planned) -> CommandChange:
    pending = planned.pending
    before = await read_before(cluster.metadata, [path for plan in pending for path in _paths(plan)])
    _check_versions(before, pending)
    recovered = [ledger_id for plan in pending for ledger_id, _ in plan.recover]
    return CommandChange(
        command="topics repair",
        subject=str(scope),
        plan=_shown(planned),
        before=before,
        managed_ledgers=tuple(plan.managed_ledger for plan in pending),
        cursors=tuple(
            saved_cursor(mend.path, mend.recovered)
            for plan in pending
            for mend in plan.cursors
            if mend.recovered.old_cursor_ledger is not None
        ),
        lost=(
            *(f"the entries of ledger {ledger_id}" for plan in pending for ledger_id in plan.delete),
            *(
                f"the ability of ledger {ledger_id}'s writer to continue: the ledger stays closed"
                for ledger_id in recovered
            ),
        ),
        pending=bool(pending),
    )


def _paths(plan: RepairPlan) -> list[str]:
    """The nodes that `plan` may change, without pending and deletion records."""
    topic = managed_ledger_path(plan.managed_ledger)
    ledgers = {*plan.delete, *(ledger_id for ledger_id, _ in plan.recover)}
    return [
        *([topic] if plan.info is not None else []),
        *(mend.path for mend in plan.cursors),
        *(ledger_path(ledger_id) for ledger_id in sorted(ledgers)),
        *(each.path for each in plan.done_with if each.path == kept_path(each.ledger_id)),
    ]


def _check_versions(before: tuple[ChangedRecord, ...], plans: tuple[RepairPlan, ...]) -> None:
    """Raise BadVersion if a record changed between planning and reading it for the undo file."""
    versions = {mend.path: mend.version for plan in plans for mend in plan.cursors}
    versions |= {managed_ledger_path(plan.managed_ledger): plan.version for plan in plans if plan.version is not None}
    for record in before:
        expected = versions.get(record.path)
        if expected is not None and (record.before is None or record.before.version != expected):
            raise BadVersion(f"{record.path} was changed during planning: run the command again", record.path)


def _shown(planned: Planned) -> OutputRecord:
    mended: list[tuple[Value, ...]] = []
    left: list[tuple[Value, ...]] = []
    for plan in planned.plans:
        for mend in plan.mends:
            row = (_topic(plan.managed_ledger), mend.wrong.value, mend.ledger_id, mend.cursor, mend.text)
            (mended if mend.mended else left).append(row)
    text = f"nothing here names it, and it stays: {APART}"
    left += [
        (_topic(each.managed_ledger), Wrong.ORPHAN.value, each.ledger_id, each.cursor, text) for each in planned.apart
    ]
    failed = tuple((_topic(each.managed_ledger), each.reason) for each in planned.failed)
    return OutputRecord(
        fields(topics=len(planned.plans), topics_to_repair=len(planned.pending)),
        (
            OutputTable("mends", MEND_COLUMNS, tuple(mended)),
            OutputTable("left", MEND_COLUMNS, tuple(left)),
            OutputTable("not_looked_at", columns("topic", "reason"), failed),
        ),
    )


def _topic(managed_ledger: str) -> str:
    try:
        return str(TopicName.of_managed_ledger(managed_ledger))
    except InvalidName:
        return managed_ledger
