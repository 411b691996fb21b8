"""`mledger ledgers recover|delete`: a ledger closed or removed by hand, with a plan first and an undo file."""

import click

from mledger.admin.references.ledger_audit import LedgerAuditor
from mledger.admin.references.reader import read_references
from mledger.admin.undo.undo_file import ChangedRecord
from mledger.bookie.client.client import BookKeeper
from mledger.bookie.client.config import ClientConfig
from mledger.bookie.errors import NoSuchLedger
from mledger.cli.shared import change_command
from mledger.cli.shared.change_command import (
    ChangeOptions,
    CommandChange,
    Facts,
    change_options,
    read_before,
    run_change,
)
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.output import OutputRecord, OutputTable, Value, columns, fields
from mledger.cli.shared.read_only import ReadOnlyCluster, tell_waiting
from mledger.errors import LedgerNamed
from mledger.ledgers.references import LedgerOrigin, Reference, origin_of
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import InvalidName
from mledger.metastore.records.ledger_codec import decode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState
from mledger.metastore.records.paths import TopicName, ledger_path
from mledger.metastore.url import open_store

take_over_option = click.option(
    "--take-over", is_flag=True, help="Go on although an owner of its topic was seen, and fence it."
)


@click.command(epilog="Example: mledger ledgers recover 12 --dry-run")
@click.argument("ledger_id", type=click.IntRange(0))
@take_over_option
@change_options
@common_options
@click.pass_obj
def recover(context: CommandContext, ledger_id: int, take_over: bool, change: ChangeOptions) -> None:
    """Recover a ledger that is not closed: fence its writer, settle its end, close it (rule Q4).

    Opening a topic recovers the ledgers that it has to; this is for ledgers that no opening reaches.
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
            lost=("the writer's right to go on: the ledger stays fenced on its bookies",) if pending else (),
            pending=pending,
        )

    async def act(planned: CommandChange) -> Facts:
        password = _metadata(ledger_id, planned.before[0]).password or b""
        async with await open_store(context.url) as store:
            bookkeeper = BookKeeper(store, ClientConfig())
            bookkeeper.on_waiting = tell_waiting()
            try:
                change_command.on_step("recover ledger")
                reader = await bookkeeper.open_ledger(ledger_id, password)
            finally:
                await bookkeeper.close()
        return fields(state=LedgerState.CLOSED.name, last_entry=reader.last_entry, length=reader.length)

    run_change(context, change, plan, act, take_over=take_over)


@click.command(epilog="Example: mledger ledgers delete 12 --dry-run")
@click.argument("ledger_id", type=click.IntRange(0))
@click.option("--force", is_flag=True, help="Delete it although something names it, or may name it.")
@take_over_option
@change_options
@common_options
@click.pass_obj
def delete(context: CommandContext, ledger_id: int, force: bool, take_over: bool, change: ChangeOptions) -> None:
    """Delete a ledger that nothing names; with --force any. Its entries are lost: undoing restores its record only."""

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        before, metadata, origin = await _read(cluster, ledger_id)
        named, why_not = await _why_not(cluster, origin)
        if why_not and not force:
            raise LedgerNamed(f"ledger {ledger_id} is not deleted: {why_not}; --force deletes it all the same")
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
        rows: list[tuple[Value, ...]] = [(each.naming.value, each.path) for each in named]
        return CommandChange(
            command="ledgers delete",
            subject=str(ledger_id),
            plan=OutputRecord(facts, (OutputTable("named_by", columns("named_as", "by"), tuple(rows)),)),
            before=(before,),
            managed_ledgers=owners,
            lost=(
                f"the {entries} of ledger {ledger_id}: bookies free them by and by, undoing restores the record only",
            ),
        )

    async def act(planned: CommandChange) -> Facts:
        state = planned.before[0].before
        assert state is not None
        async with await open_store(context.url) as store:
            change_command.on_step("delete ledger")
            await LedgerStore(store).delete(ledger_id, state.version)
        return fields(deleted=True)

    run_change(context, change, plan, act, take_over=take_over)


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
    """The managed ledger whose owner is to be looked for, and a warning where there is none to look for."""
    try:
        if origin.managed_ledger:
            TopicName.of_managed_ledger(origin.managed_ledger)
            return (origin.managed_ledger,), ()
    except InvalidName:
        pass
    return (), ("its metadata names no topic: no owner was looked for",)


async def _why_not(cluster: ReadOnlyCluster, origin: LedgerOrigin) -> tuple[list[Reference], str]:
    """What names the ledger, and why it is not to be deleted; empty if it may be."""
    references = await read_references(cluster.metadata)
    named = [each for each in references.found if each.ledger_id == origin.ledger_id]
    if named:
        return named, f"{named[0].path} names it as {named[0].naming.value}"
    if references.unreadable:
        return [], f"{references.unreadable[0].path} may name it and cannot be read"
    if not origin.judged:
        what = f"of the component {origin.component}" if origin.component else "of no component known here"
        return [], f"it is {what}, and what names such ledgers is not known"
    auditor = LedgerAuditor(cluster.metadata, cluster.bookies)
    orphans, undecided = await auditor.confirm_orphans([origin])
    if undecided:
        return [], f"whether a cursor's state needs it cannot be told: {undecided[0].reason}"
    return [], "" if orphans else "a cursor's state needs it"
