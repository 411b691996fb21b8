"""What commands share that change existing data: plan, owner (M9), consent, undo file, act, undo file completed.

- The plan is made read-only; --dry-run prints it and ends there: no undo file, no ownership.
- Under a live owner the command is refused before anything is asked or written.
- What the plan was made from is read again before the undo file is written: what changed since is refused.
- The undo file is durable before the first change, and completed after the last. A command cut off in between leaves
  one that says what may have been changed; one that failed without changing a record leaves none.
"""

import asyncio
import functools
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from mledger.admin.inspect import Inspector
from mledger.admin.undo.undo_file import ChangedRecord, NodeState, Outcome, SavedCursor, UndoFile
from mledger.admin.undo.undo_plan import saved_cursor
from mledger.cli.shared import undo_files
from mledger.cli.shared.context import CommandContext
from mledger.cli.shared.messages import messages
from mledger.cli.shared.output import Output, OutputRecord, Value, fields
from mledger.cli.shared.read_only import ReadOnlyCluster, read_only_cluster
from mledger.ledgers.ledger_factory import StepHook, ignore_steps
from mledger.ledgers.ownership import check_owner
from mledger.ledgers.shadow_topics import refuse_shadows
from mledger.metastore.errors import BadVersion, MledgerError, StoreUnavailable
from mledger.metastore.records.paths import TopicName, cursor_path
from mledger.metastore.records.values import NO_CURSOR_LEDGER
from mledger.metastore.session import SESSION_TIMEOUT_S
from mledger.metastore.store import MetadataReader
from mledger.metastore.url import open_reader

Command = TypeVar("Command", bound=Callable[..., Any])
Facts = tuple[tuple[Any, Value], ...]

on_step: StepHook = ignore_steps
"""Called with a name before each step that leaves something behind; tests stop the process there."""


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """The options of every changing command."""

    dry_run: bool = False
    yes: bool = False
    undo_file: Path | None = None


@dataclass(frozen=True, slots=True)
class ChangePart:
    """What a command is about to do to one of many topics, none of which stops the others."""

    managed_ledger: str
    before: tuple[ChangedRecord, ...]
    cursors: tuple[SavedCursor, ...] = ()
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandChange:
    """What a command is about to do: `plan` as shown, `before` the nodes it may change, as read before planning.

    `managed_ledgers` are those whose owners matter and whose versions undoing checks, `cursors` the states in cursor
    ledgers that may be deleted, `lost` what cannot be brought back. `pending` False: there is nothing to do.
    """

    command: str
    subject: str
    plan: OutputRecord
    before: tuple[ChangedRecord, ...]
    managed_ledgers: tuple[str, ...] = ()
    cursors: tuple[SavedCursor, ...] = ()
    lost: tuple[str, ...] = ()
    pending: bool = True
    parts: tuple[ChangePart, ...] = ()
    """Of a command on many topics: what it is made of. One that was changed since planning is left out, the others
    are carried out; their owners the plan has looked for."""

    def with_parts(self, parts: Sequence[ChangePart]) -> "CommandChange":
        """The change made of `parts`, with their records, cursors and losses, and no others."""
        return replace(
            self,
            before=tuple(record for part in parts for record in part.before),
            managed_ledgers=tuple(part.managed_ledger for part in parts),
            cursors=tuple(cursor for part in parts for cursor in part.cursors),
            lost=tuple(line for part in parts for line in part.lost),
            parts=tuple(parts),
        )


Plan = Callable[[ReadOnlyCluster], Awaitable[CommandChange]]
Act = Callable[[CommandChange], Awaitable[Facts]]


def change_options(command: Command) -> Command:
    """Give `command` --dry-run, --yes and --undo-file; they arrive as one `change`."""

    @functools.wraps(command)
    def gather(*args: Any, **named: Any) -> Any:
        options = ChangeOptions(named.pop("dry_run"), named.pop("yes"), named.pop("undo_file"))
        return command(*args, change=options, **named)

    for option in (
        click.option(
            "--undo-file",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Where to write what `mledger undo` needs.  [default: mledger-undo-….json here]",
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
) -> None:
    """Plan, look for an owner, ask, keep what there is, act, and show what was done.

    `plan` gets types that cannot write. `act` carries out the change it is given, opening the cluster itself, and
    returns the fields of its result; what it meets that the plan did not foresee it raises. `take_over` as in M9;
    `session_timeout`, s, is how long an owner of ours that is gone may seem to be there; None for the default.

    Raises:
        OwnedElsewhere: a live owner was seen.
        BadVersion: what the plan was made from has changed since.
        UndoFileError: the undo file cannot be written where it was to be.
    """
    wait_s = SESSION_TIMEOUT_S if session_timeout is None else session_timeout
    change = context.run(_plan(context.url, options, plan, None if take_over else wait_s))
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
    made_at_ms = time.time_ns() // 1_000_000
    path = options.undo_file or undo_files.default_path(change.command, change.subject, made_at_ms)
    result = context.run(_carry_out(context.url, change, path, made_at_ms, act))
    facts = fields(undo_file=str(path)) + result
    if context.output.for_programs:
        context.output.record(OutputRecord((*_plan_facts(change), *fields(dry_run=False), *facts), change.plan.tables))
    else:
        context.output.line("")
        context.output.record(OutputRecord(facts))


async def read_before(reader: MetadataReader, paths: Sequence[str]) -> tuple[ChangedRecord, ...]:
    """The nodes that a command may change, as they are; to be read before what the plan is made from."""
    nodes = await reader.get_many(paths)
    return tuple(ChangedRecord(path, NodeState.of(node)) for path, node in zip(paths, nodes, strict=True))


async def save_cursors(
    cluster: ReadOnlyCluster, managed_ledger: str, cursors: Collection[str] | None = None
) -> tuple[SavedCursor, ...]:
    """The states of the topic's cursors, or of those named, that live in cursor ledgers: clean closes delete these.

    Raises what keeps a state from being read (R5): then nothing is to be changed. TopicNotFound.
    """
    topic = TopicName.of_managed_ledger(managed_ledger)
    saved = []
    for found in await Inspector(cluster.metadata, cluster.bookies).cursors(str(topic)):
        in_ledger = found.record is None or found.record.cursors_ledger_id != NO_CURSOR_LEDGER
        if in_ledger and (cursors is None or found.name in cursors):
            if found.plan is None:
                assert found.error is not None
                raise found.error
            saved.append(saved_cursor(cursor_path(managed_ledger, found.name), found.plan))
    return tuple(saved)


async def _plan(url: str, options: ChangeOptions, plan: Plan, wait_s: float | None) -> CommandChange:
    """The plan; owners are waited for so long, or with None not looked for."""
    async with read_only_cluster(url) as cluster:
        change = await plan(cluster)
        await refuse_shadows(cluster.metadata, change.managed_ledgers)
        if change.pending and not change.parts and not options.dry_run and wait_s is not None:
            for name in change.managed_ledgers:
                await check_owner(cluster.metadata, name, session_timeout=wait_s)
    return change


async def _carry_out(url: str, change: CommandChange, path: Path, made_at_ms: int, act: Act) -> Facts:
    async with await open_reader(url) as reader:
        on_step("look again")
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
        )
        on_step("write undo file")
        undo_files.write_new(path, file)
        on_step("act")
        try:
            result = await act(change)
        except BaseException as error:
            with suppress(MledgerError, OSError):  # the first error is the one to tell, the file is right as it stands
                await _keep_failed(reader, path, file, error)
            raise
        on_step("complete undo file")
        undo_files.rewrite(path, await _completed(reader, file, Outcome.DONE))
        on_step("undo file completed")
        return result


def plan_unchanged(change: CommandChange, now: Sequence[ChangedRecord]) -> CommandChange:
    """The change without the parts of which a record is not as it was, given those of `change.before` as they are.

    Raises BadVersion where that leaves nothing, or the change has no parts.
    """
    differing = [record.path for record, found in zip(change.before, now, strict=True) if record != found]
    if not differing:
        return change
    changed = set(differing)
    left = [part for part in change.parts if changed.isdisjoint(record.path for record in part.before)]
    if not left:
        raise BadVersion(
            f"{differing[0]} was changed since the plan was made: nothing was done, run the command again", differing[0]
        )
    return change.with_parts(left)


async def _keep_failed(reader: MetadataReader, path: Path, file: UndoFile, error: BaseException) -> None:
    """The undo file of a command that failed: removed if no record was changed, else with what there is now."""
    if isinstance(error, StoreUnavailable | asyncio.CancelledError):  # a write may still arrive
        messages.warning(
            f"what was done is not known; {path} has what there was before: see `mledger undo --incomplete`"
        )
        return
    failed = await _completed(reader, file, Outcome.FAILED)
    if all(record.before == record.after for record in failed.records):
        undo_files.remove(path)
        return
    undo_files.rewrite(path, failed)
    messages.warning(f"not everything was done; {path} says what was changed")


async def _completed(reader: MetadataReader, file: UndoFile, outcome: Outcome) -> UndoFile:
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
    output.record(OutputRecord(facts, change.plan.tables))


def _ask(output: Output, change: CommandChange) -> None:
    """Show the plan and have the user agree; click.UsageError where nobody can be asked, click.Abort on no."""
    if not sys.stdin.isatty():
        raise click.UsageError("this changes the cluster: say --yes, or --dry-run to see the plan")
    _show(Output("table", sys.stderr), change, _plan_facts(change))
    click.confirm("Do it?", abort=True, err=True)
