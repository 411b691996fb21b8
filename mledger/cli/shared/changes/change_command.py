"""The frame of commands that change data: plan, owner check (M9), consent, undo file, act, complete it.

- The plan only reads; --dry-run prints it and ends: no undo file, no ownership.
- If there is a live owner, the command is rejected before it asks or writes anything.
- Before the undo file is written, the records of the plan are read again, and owners are looked for
  again: you may have thought about the question for long. If a record has changed or there is an
  owner now, the command is rejected.
- The undo file is durable before the first change and completed after the last. An interrupted
  command leaves an undo file that lists what it may have changed. A command that failed without
  changing a record leaves none.
"""

import asyncio
import dataclasses
import functools
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec.structs import replace

from mledger.admin.inspect import Inspector
from mledger.admin.undo.topic_identities import read_identities
from mledger.admin.undo.undo_file import ChangedRecord, NodeState, Outcome, SavedCursor, UndoFile
from mledger.admin.undo.undo_plan import saved_cursor
from mledger.bookie.client.tls_settings import BookieTls
from mledger.cli.shared.changes import undo_files
from mledger.cli.shared.changes.consent import check_terminal
from mledger.cli.shared.context import CommandContext
from mledger.cli.shared.messages import messages
from mledger.cli.shared.output.results import Output, OutputRecord, Value, fields
from mledger.cli.shared.read_only import ReadOnlyCluster, read_only_cluster
from mledger.errors import ManagedLedgerFenced, OwnedElsewhere, TopicChanged
from mledger.ledgers.ledger_factory import StepHook, ignore_steps
from mledger.ledgers.ownership import check_owner, find_owner
from mledger.ledgers.shadow_topics import refuse_shadows
from mledger.metastore.errors import BadVersion, MledgerError, StoreUnavailable
from mledger.metastore.records.paths import TopicName, managed_ledger_path
from mledger.metastore.records.values import NO_CURSOR_LEDGER
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.metastore.session import SESSION_TIMEOUT_S
from mledger.metastore.store import MetadataReader
from mledger.metastore.url import open_reader

Command = TypeVar("Command", bound=Callable[..., Any])
Facts = tuple[tuple[Any, Value], ...]

on_step: StepHook = ignore_steps
"""Called with a name before each step with a lasting effect; tests stop the process there."""


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """The options of every changing command."""

    dry_run: bool = False
    yes: bool = False
    undo_file: Path | None = None


@dataclass(frozen=True, slots=True)
class ChangePart:
    """The change of one of many topics; its failure does not stop the others."""

    managed_ledger: str
    before: tuple[ChangedRecord, ...]
    cursors: tuple[SavedCursor, ...] = ()
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandChange:
    """A planned change: `plan` as shown, `before` the nodes that it may change, as read before planning.

    `managed_ledgers` are those whose owners the command checks and whose versions undo checks,
    `cursors` the states in cursor ledgers that may be deleted, `lost` what undo cannot restore.
    `pending` False: there is nothing to do. `relied_on` are further nodes that the plan depends on
    and the command does not restore.
    """

    command: str
    subject: str
    plan: OutputRecord
    before: tuple[ChangedRecord, ...]
    managed_ledgers: tuple[str, ...] = ()
    cursors: tuple[SavedCursor, ...] = ()
    lost: tuple[str, ...] = ()
    pending: bool = True
    relied_on: tuple[ChangedRecord, ...] = ()
    parts: tuple[ChangePart, ...] = ()
    """The parts of a command on many topics, whose owners the plan has checked. A part that was
    changed since planning is skipped; the others are carried out."""
    left_at: dict[str, int] = field(default_factory=dict)
    """The versions at which the command has left topics' records, by managed ledger."""
    untouched: dict[str, Sequence[str]] = field(default_factory=dict)
    """The managed ledgers whose records the command has not written: what others made of them, and of what is at the
    further paths of each, is not for undo."""
    begun: set[str] = field(default_factory=set)
    """Of these managed ledgers, those whose writes have begun: undo keeps their records if the outcome is unknown."""
    left_to_others: set[str] = field(default_factory=set)
    """The records of topics that a deletion has begun and lost to another owner before it came to them."""

    @property
    def never_begun(self) -> dict[str, Sequence[str]]:
        """What of `untouched` nothing was sent of."""
        return {name: paths for name, paths in self.untouched.items() if name not in self.begun}

    def one_by_one(self) -> dict[str, int]:
        """Have undo leave out the topics that the command does not come to; returns `planned_at`."""
        self.untouched.update(dict.fromkeys(self.managed_ledgers, ()))
        return self.planned_at

    def touch(self, managed_ledger: str) -> None:
        """Note that records of the topic are written from here on."""
        self.untouched.pop(managed_ledger, None)

    @property
    def planned_at(self) -> dict[str, int]:
        """The versions of the topics' records on which the change was planned, by managed ledger."""
        return planned_at(self.managed_ledgers, (*self.before, *self.relied_on))

    def with_parts(self, parts: Sequence[ChangePart]) -> "CommandChange":
        """The change with only `parts`, and their records, cursors and losses."""
        return dataclasses.replace(
            self,
            before=tuple(record for part in parts for record in part.before),
            managed_ledgers=tuple(part.managed_ledger for part in parts),
            cursors=tuple(cursor for part in parts for cursor in part.cursors),
            lost=tuple(line for part in parts for line in part.lost),
            parts=tuple(parts),
        )


def planned_at(managed_ledgers: Sequence[str], records: Sequence[ChangedRecord]) -> dict[str, int]:
    """The version of each topic's record, by managed ledger, where `records` have it."""
    found = {record.path: record.before.version for record in records if record.before is not None}
    paths = {name: managed_ledger_path(name) for name in managed_ledgers}
    return {name: found[path] for name, path in paths.items() if path in found}


Plan = Callable[[ReadOnlyCluster], Awaitable[CommandChange]]
Act = Callable[[CommandChange], Awaitable[Facts]]


def change_options(command: Command) -> Command:
    """Add --dry-run, --yes and --undo-file to `command`, which receives them as `change`."""

    @functools.wraps(command)
    def gather(*args: Any, **named: Any) -> Any:
        options = ChangeOptions(named.pop("dry_run"), named.pop("yes"), named.pop("undo_file"))
        return command(*args, change=options, **named)

    for option in (
        click.option(
            "--undo-file",
            type=click.Path(dir_okay=False, path_type=Path),
            help="The file for `mledger undo`.  [default: mledger-undo-….json in the current directory]",
        ),
        click.option("--yes", "-y", is_flag=True, help="Do not ask."),
        click.option("--dry-run", is_flag=True, help="Show the plan; change nothing."),
    ):
        gather = option(gather)
    return gather  # type: ignore[return-value]


def run_change(
    context: CommandContext,
    options: ChangeOptions,
    plan: Plan,
    act: Act,
    *,
    take_over: bool = False,
    session_timeout: float | None = None,
    tls: BookieTls | None = None,
) -> None:
    """Plan, check for an owner, ask, write the undo file, act, and show the result.

    `plan` receives types that cannot write. `act` carries out the change, opens the cluster itself,
    and returns the fields of its result; it raises on anything that the plan did not foresee.
    `take_over` as in M9. `session_timeout`, in s, is how long the node of a dead mledger owner may
    remain; None for the default. `tls` encrypts the plan's connections to bookies, if not None.

    Raises:
        OwnedElsewhere: there is a live owner, or one since the plan was made.
        BadVersion: a record of the plan has changed since.
        UndoFileError: the undo file cannot be written.
    """
    wait_s = SESSION_TIMEOUT_S if session_timeout is None else session_timeout
    change = context.run(_plan(context.url, options, plan, None if take_over else wait_s, tls))
    if options.dry_run or not change.pending:
        _show(context.output, change, _plan_facts(change) + fields(dry_run=options.dry_run, undo_file=None))
        if change.pending:
            context.output.line("\nnothing was changed")
        else:
            context.output.line("\nnothing to do")
        return
    if not options.yes:
        _ask(context.output, change)
    else:
        _show_plan(context.output, change)
    made_at_ms = wall_clock_ms()
    path = options.undo_file or undo_files.default_path(change.command, change.subject, made_at_ms)
    result = context.run(_carry_out(context.url, change, path, made_at_ms, act, take_over=take_over))
    facts = fields(undo_file=str(path)) + result
    with messages.made(f"the change was made, {path} can undo it"):
        _show_result(context, change, facts)


def _show_result(context: CommandContext, change: CommandChange, facts: Facts) -> None:
    if context.output.for_programs:
        context.output.record(OutputRecord((*_plan_facts(change), *fields(dry_run=False), *facts), change.plan.tables))
    else:
        context.output.line("")
        context.output.record(OutputRecord(facts))


async def read_before(reader: MetadataReader, paths: Sequence[str]) -> tuple[ChangedRecord, ...]:
    """Read the nodes that a command may change; call this before the plan reads anything."""
    nodes = await reader.get_many(paths)
    return tuple(ChangedRecord(path, NodeState.of(node)) for path, node in zip(paths, nodes, strict=True))


async def save_cursors(
    cluster: ReadOnlyCluster, managed_ledger: str, paths: Collection[str] | None = None
) -> tuple[SavedCursor, ...]:
    """The states in cursor ledgers of the topic's cursors, or of those at `paths`: clean closes delete these.

    Raises TopicNotFound, and the error if a state cannot be read (R5): then nothing may be changed.
    """
    topic = TopicName.of_managed_ledger(managed_ledger)
    saved = []
    for found in await Inspector(cluster.metadata, cluster.bookies).cursors(str(topic)):
        in_ledger = found.record is None or found.record.cursors_ledger_id != NO_CURSOR_LEDGER
        if in_ledger and (paths is None or found.path in paths):
            if found.plan is None:
                assert found.error is not None
                raise found.error
            saved.append(saved_cursor(found.path, found.plan))
    return tuple(saved)


async def _plan(
    url: str, options: ChangeOptions, plan: Plan, wait_s: float | None, tls: BookieTls | None
) -> CommandChange:
    """Plan, and wait up to `wait_s` for owners to go; None: do not check for owners."""
    async with read_only_cluster(url, tls) as cluster:
        change = await plan(cluster)
        await refuse_shadows(cluster.metadata, change.managed_ledgers)
        if change.pending and not change.parts and not options.dry_run and wait_s is not None:
            for name in change.managed_ledgers:
                await check_owner(cluster.metadata, name, session_timeout=wait_s)
    return change


async def _carry_out(
    url: str, change: CommandChange, path: Path, made_at_ms: int, act: Act, *, take_over: bool = False
) -> Facts:
    async with await open_reader(url) as reader:
        on_step("look again")
        await reader.sync()
        await _check_again(reader, change, take_over=take_over)
        topics = await read_identities(reader, change.managed_ledgers, [record.path for record in change.before])
        change = plan_unchanged(change, await read_before(reader, [record.path for record in change.before]))
        file = UndoFile(
            command=change.command,
            subject=change.subject,
            made_at_ms=made_at_ms,
            cluster=reader.url,
            records=change.before,
            managed_ledgers=change.managed_ledgers,
            cursors=change.cursors,
            lost=change.lost,
            topics=topics,
        )
        on_step("write undo file")
        undo_files.write_new(path, file)
        on_step("act")
        try:
            result = await act(change)
        except BaseException as error:
            with suppress(MledgerError, OSError):  # raise the first error; the file is valid as it is
                await _keep_failed(reader, path, file, error, change)
            raise
        on_step("complete undo file")
        try:
            completed = await _completed(reader, _of_written(file, None, change.untouched), Outcome.DONE)
            if other := await _had_by_another(reader, change.left_at):
                messages.warning(
                    f"{other} had another owner before {path} was completed: see `mledger undo --incomplete`"
                )
                return result
            undo_files.rewrite(path, completed)
        except BaseException:
            messages.warning(f"the change was made, but {path} was not completed: see `mledger undo --incomplete`")
            raise
        on_step("undo file completed")
        return result


async def _check_again(reader: MetadataReader, change: CommandChange, *, take_over: bool) -> None:
    """Raise BadVersion if a node that the plan relies on has changed, and OwnedElsewhere if a topic has an owner now.

    The owners of `parts` are checked when each is opened.
    """
    now = await read_before(reader, [record.path for record in change.relied_on])
    for record, found in zip(change.relied_on, now, strict=True):
        if record != found:
            raise _changed(record.path)
    if take_over or change.parts:
        return
    for name in change.managed_ledgers:
        owner = await find_owner(reader, name)
        if owner is not None:
            raise OwnedElsewhere(f"{name} got an owner since the plan was made: {owner}; nothing was done")


def _changed(path: str) -> BadVersion:
    return BadVersion(f"{path} has changed since the plan was made: nothing was done; run the command again", path)


def plan_unchanged(change: CommandChange, now: Sequence[ChangedRecord]) -> CommandChange:
    """The change without the parts that have a changed record; `now` are the records of `change.before`.

    Raises BadVersion if no part is left, or if the change has no parts and a record has changed.
    """
    differing = [record.path for record, found in zip(change.before, now, strict=True) if record != found]
    if not differing:
        return change
    changed = set(differing)
    left = [part for part in change.parts if changed.isdisjoint(record.path for record in part.before)]
    if not left:
        raise _changed(differing[0])
    return change.with_parts(left)


async def _keep_failed(
    reader: MetadataReader, path: Path, file: UndoFile, error: BaseException, change: CommandChange
) -> None:
    """Remove the undo file of a failed command if no record changed; else add the current records.

    If the outcome is unknown, it keeps the records that may have changed, as they were before.
    """
    if isinstance(error, StoreUnavailable | asyncio.CancelledError):  # a write may still arrive
        begun = _of_written(file, None, change.never_begun, change.left_to_others)
        if file.records and not begun.records:
            undo_files.remove(path)
            return
        if begun != file:
            undo_files.rewrite(path, begun)
        messages.warning(
            f"the outcome is unknown; {path} has the records as they were before: see `mledger undo --incomplete`"
        )
        return
    written = _of_written(file, error, change.untouched, change.left_to_others)
    failed = await _completed(reader, written, Outcome.FAILED)
    if not any(map(_has_changed, failed.records)):
        undo_files.remove(path)
        return
    if isinstance(error, ManagedLedgerFenced):
        undo_files.rewrite(path, written)
        messages.warning(
            f"the new owner may have changed the same records; {path} has them as they were before: see "
            "`mledger undo --incomplete`"
        )
        return
    undo_files.rewrite(path, failed)
    messages.warning(f"the change is incomplete; {path} lists what was changed")


def _has_changed(record: ChangedRecord) -> bool:
    """Whether undo would write anything: a record written to and back again has another version only."""
    before, after = (None if state is None else state.data for state in (record.before, record.after))
    return before != after


async def _had_by_another(reader: MetadataReader, left_at: Mapping[str, int]) -> str:
    """A topic whose record is not as the command left it, empty if there is none.

    Each owner's first write is of that record: read after cursors' records, it tells whether those are the command's.
    """
    nodes = await reader.get_many([managed_ledger_path(name) for name in left_at])
    found = zip(left_at.items(), nodes, strict=True)
    return next((name for (name, version), node in found if node is None or node.version != version), "")


def _of_written(
    file: UndoFile,
    error: BaseException | None,
    untouched: Mapping[str, Sequence[str]],
    left_to_others: Collection[str] = (),
) -> UndoFile:
    """The file without what the command has not written, by itself or according to `error`, whatever others have."""
    if isinstance(error, BadVersion) and file.paths == (error.path,):
        return replace(file, records=(), cursors=())
    roots = {*map(managed_ledger_path, untouched), *(path for paths in untouched.values() for path in paths)}
    if isinstance(error, TopicChanged):
        roots.add(error.path)

    def is_written(path: str) -> bool:
        if path in left_to_others:
            return False
        while path and path not in roots:  # for a sweep of many thousand topics, there are as many roots
            path = path.rpartition("/")[0]
        return not path

    return replace(
        file,
        records=tuple(record for record in file.records if is_written(record.path)),
        cursors=tuple(cursor for cursor in file.cursors if is_written(cursor.path)),
        managed_ledgers=tuple(name for name in file.managed_ledgers if name not in untouched),
    )


async def _completed(reader: MetadataReader, file: UndoFile, outcome: Outcome) -> UndoFile:
    await reader.sync()  # another session has written: a server that lags has not heard of it
    now = await read_before(reader, file.paths)
    records = tuple(replace(record, after=found.before) for record, found in zip(file.records, now, strict=True))
    return replace(file, outcome=outcome, records=records)


def _plan_facts(change: CommandChange) -> Facts:
    return (
        *fields(command=change.command, subject=change.subject),
        *change.plan.fields,
        *fields(lost=change.lost),
    )


def _show_plan(output: Output, change: CommandChange) -> None:
    if not output.for_programs:
        _show(output, change, _plan_facts(change))


def _show(output: Output, change: CommandChange, facts: Facts) -> None:
    """Show the plan; people see what is lost only where something is."""
    if not output.for_programs and not change.lost:
        facts = tuple(fact for fact in facts if fact[0].key != "lost")
    output.record(OutputRecord(facts, change.plan.tables))


def _ask(output: Output, change: CommandChange) -> None:
    """Show the plan and ask; raises as `check_terminal`, and click.Abort if refused."""
    check_terminal()
    _show(Output("table", sys.stderr), change, _plan_facts(change))
    click.confirm("Do it?", abort=True, err=True)
