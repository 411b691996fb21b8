"""`mledger ledgers recover|delete`: closes or deletes one ledger, with a plan and an undo file."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

import click

from mledger.admin.references.ledger_audit import APART, LedgerAuditor
from mledger.admin.references.reader import read_references
from mledger.admin.undo.undo_file import ChangedRecord
from mledger.bookie.client.client import BookKeeper
from mledger.bookie.client.config import ClientConfig
from mledger.bookie.errors import NoSuchLedger
from mledger.cli.shared.changes import change_command
from mledger.cli.shared.changes.change_command import (
    ChangeOptions,
    CommandChange,
    Facts,
    change_options,
    read_before,
    run_change,
)
from mledger.cli.shared.changes.unreadable_record import unreadable_record
from mledger.cli.shared.changes.writer_fence import fence_ledger, outdate_records
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.output.results import OutputRecord, OutputTable, Value, columns, fields
from mledger.cli.shared.read_only import ReadOnlyCluster, read_only_cluster, report_waiting
from mledger.errors import LedgerNamed
from mledger.ledgers.orphans.pending_records import claim_deletion, deletion_record, ensure_folders, remove_record
from mledger.ledgers.orphans.references import LedgerOrigin, Reference, origin_of
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import InvalidName, NodeExists, RecordError
from mledger.metastore.records.ledger_codec import decode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState
from mledger.metastore.records.paths import TopicName, deletion_path, ledger_path
from mledger.metastore.store import MetadataReader, MetadataStore
from mledger.metastore.url import open_store
from mledger.metastore.write_verification import multi_own

take_over_option = click.option(
    "--take-over", is_flag=True, help="Continue although its topic has an owner, and fence the owner."
)


@click.command(epilog="Example: mledger ledgers recover 12 --dry-run")
@click.argument("ledger_id", type=click.IntRange(0))
@take_over_option
@change_options
@common_options
@click.pass_obj
def recover(context: CommandContext, ledger_id: int, take_over: bool, change: ChangeOptions) -> None:
    """Recover an open ledger: fence its writer, determine its end, and close it (rule Q4).

    Opening a topic recovers its ledgers; this command is for ledgers that no topic opens.
    """

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        before, metadata, origin = await _read(cluster, ledger_id)
        owners, notes = _owners(origin)
        facts = fields(ledger_id=ledger_id, of=origin.managed_ledger, cursor=origin.cursor, state=metadata.state.name)
        pending = metadata.state is not LedgerState.CLOSED
        if pending:
            peek = await cluster.bookies.peek(ledger_id, metadata.password or b"")
            facts += fields(
                last_add_confirmed=peek.last_add_confirmed,
                last_entry_seen=peek.last_entry,
                warnings=(*notes, *peek.warnings),
            )
        return CommandChange(
            command="ledgers recover",
            subject=str(ledger_id),
            plan=OutputRecord(facts),
            before=(before,),
            managed_ledgers=owners,
            lost=("the writer's ability to continue: the ledger stays closed, and fenced on its bookies",)
            if pending
            else (),
            pending=pending,
        )

    async def act(planned: CommandChange) -> Facts:
        password = _metadata(ledger_id, planned.before[0]).password or b""
        async with await open_store(context.url) as store:
            bookkeeper = BookKeeper(store, ClientConfig())
            bookkeeper.on_waiting = report_waiting()
            try:
                change_command.on_step("recover ledger")
                reader = await bookkeeper.open_ledger(ledger_id, password)
            finally:
                await bookkeeper.close()
        return fields(state=LedgerState.CLOSED.name, last_entry=reader.last_entry, length=reader.length)

    run_change(context, change, plan, act, take_over=take_over)


@click.command(epilog="Example: mledger ledgers delete 12 --dry-run")
@click.argument("ledger_id", type=click.IntRange(0))
@click.option("--force", is_flag=True, help="Delete it even if a record names it or may name it.")
@take_over_option
@change_options
@common_options
@click.pass_obj
def delete(context: CommandContext, ledger_id: int, force: bool, take_over: bool, change: ChangeOptions) -> None:
    """Delete a ledger that nothing names, or with --force any. Its entries are lost: undo restores only its record."""
    planned_names: set[str] = set()

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        try:
            before, metadata, origin = await _read(cluster, ledger_id)
        except RecordError as error:
            if not force:
                raise
            change, named = await _plan_unreadable(cluster, ledger_id, error)
            planned_names.update(each.path for each in named)
            return change
        named, why_not = await _why_not(cluster, origin)
        planned_names.update(each.path for each in named)
        if why_not and not force:
            raise _named(ledger_id, why_not)
        owners, notes = _owners(origin)
        closed = metadata.state is LedgerState.CLOSED
        entries = f"{metadata.last_entry + 1:,} entries" if closed else "entries"
        facts = fields(
            ledger_id=ledger_id,
            of=origin.managed_ledger,
            cursor=origin.cursor,
            component=origin.component,
            state=metadata.state.name,
            entries=metadata.last_entry + 1 if closed else None,
            length=metadata.length if closed else None,
            warnings=(*((why_not,) if why_not else ()), *notes),
        )
        return CommandChange(
            command="ledgers delete",
            subject=str(ledger_id),
            plan=OutputRecord(facts, (_named_by(named),)),
            before=(before,),
            managed_ledgers=owners,
            lost=(f"the {entries} of ledger {ledger_id}: bookies free them over time; undo restores only the record",),
        )

    async def act(planned: CommandChange) -> Facts:
        state = planned.before[0].before
        assert state is not None
        if not force:
            await _check_unnamed(context.url, origin_of(ledger_id, _metadata(ledger_id, planned.before[0]), 0))
        async with await open_store(context.url) as store, _claimed(store, ledger_id, planned.managed_ledgers) as own:
            if not force:
                await _keep_unnamed(store, ledger_id, planned)
            await _check_only_named_by(store, ledger_id, {own, *planned_names})
            version = state.version
            if take_over:
                version = await _fence(store, ledger_id, version, planned.managed_ledgers)
            change_command.on_step("delete ledger")
            await LedgerStore(store).delete(ledger_id, version)
        return fields(deleted=True)

    run_change(context, change, plan, act, take_over=take_over)


async def _fence(store: MetadataStore, ledger_id: int, version: int, managed_ledgers: Sequence[str]) -> int:
    """Have the ledger's bookies refuse its topic's owner; the version of its metadata afterwards. BadVersion."""
    path = ledger_path(ledger_id)
    if not managed_ledgers or (await store.get(path)).stat.version != version:
        return version  # the deletion is refused by it if the ledger has changed since the plan
    await fence_ledger(store, managed_ledgers[0], ledger_id)
    return (await store.get(path)).stat.version


async def _keep_unnamed(store: MetadataStore, ledger_id: int, planned: CommandChange) -> None:
    """See to it that no owner that is about to name the ledger still can; the writer of a closed one is fenced."""
    metadata = _metadata(ledger_id, planned.before[0])
    if metadata.state is not LedgerState.CLOSED:
        for managed_ledger in planned.managed_ledgers:
            await outdate_records(store, managed_ledger, origin_of(ledger_id, metadata, 0).cursor)


@asynccontextmanager
async def _claimed(store: MetadataStore, ledger_id: int, managed_ledgers: Sequence[str]) -> AsyncIterator[str]:
    """Claim the deletion of a topic's ledger: an undo that lists it again later finds that it is going.

    Gives the path of the record for that, empty if it is not ours.
    """
    if not managed_ledgers:
        yield ""
        return
    (managed_ledger,) = managed_ledgers
    await ensure_folders(store)
    path = deletion_path(ledger_id)
    try:
        await multi_own(store, [deletion_record(ledger_id, managed_ledger)])
    except NodeExists:  # somebody else deletes it, or an attempt to was cut off
        yield ""
        return
    try:
        await claim_deletion(store, ledger_id, managed_ledger)
        yield path
    finally:
        await remove_record(store, path)


async def _plan_unreadable(
    cluster: ReadOnlyCluster, ledger_id: int, error: RecordError
) -> tuple[CommandChange, list[Reference]]:
    """The plan to delete a ledger whose metadata does not parse (M12), and what names it.

    Its topic and bookies are not known.
    """
    (before,) = await read_before(cluster.metadata, [ledger_path(ledger_id)])
    if before.before is None:
        raise NoSuchLedger(f"ledger {ledger_id} does not exist, or was deleted")
    named, why_not = await _why_not(cluster, LedgerOrigin(ledger_id, "", "", "", 0))
    warnings = (*((why_not,) if named else ()), "which topic it is of cannot be read: not checked for an owner")
    facts = fields(ledger_id=ledger_id, **unreadable_record(error, before.before.data), warnings=warnings)
    change = CommandChange(
        command="ledgers delete",
        subject=str(ledger_id),
        plan=OutputRecord(facts, (_named_by(named),)),
        before=(before,),
        lost=(f"the entries of ledger {ledger_id}: bookies free them over time; undo restores only the record",),
    )
    return change, named


def _named_by(named: Sequence[Reference]) -> OutputTable:
    rows: list[tuple[Value, ...]] = [(each.naming.value, each.path) for each in named]
    return OutputTable("named_by", columns("named_as", "by"), tuple(rows))


async def _read(cluster: ReadOnlyCluster, ledger_id: int) -> tuple[ChangedRecord, LedgerMetadata, LedgerOrigin]:
    (before,) = await read_before(cluster.metadata, [ledger_path(ledger_id)])
    if before.before is None:
        raise NoSuchLedger(f"ledger {ledger_id} does not exist, or was deleted")
    metadata = _metadata(ledger_id, before)
    return before, metadata, origin_of(ledger_id, metadata, 0)


def _metadata(ledger_id: int, record: ChangedRecord) -> LedgerMetadata:
    assert record.before is not None
    return decode_ledger_metadata(record.before.data, ledger_path(ledger_id))


def _owners(origin: LedgerOrigin) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The managed ledger whose owner to check for, and a warning if there is no such managed ledger."""
    try:
        if origin.managed_ledger:
            TopicName.of_managed_ledger(origin.managed_ledger)
            return (origin.managed_ledger,), ()
    except InvalidName:
        pass
    return (), ("its metadata names no topic: not checked for an owner",)


async def _check_unnamed(url: str, origin: LedgerOrigin) -> None:
    """Raise LedgerNamed if a record names the ledger now: its own metadata does not change when it is listed again."""
    async with read_only_cluster(url) as cluster:
        await cluster.metadata.sync()
        _, why_not = await _why_not(cluster, origin)
    if why_not:
        raise _named(origin.ledger_id, why_not)


def _named(ledger_id: int, why_not: str) -> LedgerNamed:
    return LedgerNamed(f"ledger {ledger_id} is not deleted: {why_not}; use --force to delete it anyway")


async def _check_only_named_by(store: MetadataReader, ledger_id: int, paths: Collection[str]) -> None:
    """Raise LedgerNamed if a record that is not at `paths` names it: an undo may have listed it before the claim."""
    await store.sync()
    for each in (await read_references(store)).found:
        if each.ledger_id == ledger_id and each.path not in paths:
            raise LedgerNamed(
                f"ledger {ledger_id} is not deleted: {each.path} names it as {each.naming.value}, and did not when the "
                "plan was made: run the command again"
            )


async def _why_not(cluster: ReadOnlyCluster, origin: LedgerOrigin) -> tuple[list[Reference], str]:
    """The references to the ledger, and why it must not be deleted; empty if it may be."""
    references = await read_references(cluster.metadata)
    named = [each for each in references.found if each.ledger_id == origin.ledger_id]
    auditor = LedgerAuditor(cluster.metadata, cluster.bookies)
    if origin.ledger_id in references.kept and (lost := await auditor.unlisted([origin], references.kept)):
        return named, lost[origin.ledger_id]
    if named:
        return named, f"{named[0].path} names it as {named[0].naming.value}"
    if references.unreadable:
        return [], f"{references.unreadable[0].path} may name it and cannot be read"
    if not origin.judged:
        what = f"of the component {origin.component}" if origin.component else "of no component known here"
        return [], f"it is {what}, and the references to such ledgers are not known"
    orphans, undecided = await auditor.confirm_orphans([origin])
    if undecided and undecided[0].reason == APART:
        return [], f"nothing here names it, but {APART}"
    if undecided:
        return [], f"a cursor's state may need it: {undecided[0].reason}"
    if unlisted := await auditor.unlisted(orphans):
        return [], unlisted[origin.ledger_id]
    return [], "" if orphans else "a cursor's state needs it"
