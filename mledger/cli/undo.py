"""`mledger undo`: restores the records that a command changed."""

from pathlib import Path

import click

from mledger.admin.references.ledger_audit import managed_ledger_of
from mledger.admin.undo.restorations import UndoPlan
from mledger.admin.undo.undo_file import SavedCursor, UndoFile
from mledger.admin.undo.undoer import plan_undo_of
from mledger.admin.undo.undoer import undo as put_back
from mledger.bookie.client.client import BookKeeper
from mledger.cli.shared.changes import change_command, undo_files
from mledger.cli.shared.changes.change_command import (
    ChangeOptions,
    CommandChange,
    Facts,
    change_options,
    read_before,
    run_change,
    save_cursors,
)
from mledger.cli.shared.changes.topic_owner import WriteOptions, write_options
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.output.results import OutputRecord, OutputTable, columns, fields
from mledger.cli.shared.read_only import ReadOnlyCluster, report_waiting
from mledger.ledgers.ownership import check_owner
from mledger.metastore.store import MetadataReader
from mledger.metastore.url import open_store

PLAN_COLUMNS = columns("path", "action", "version", "note")


@click.command(epilog="Example: mledger undo skipped.json --dry-run")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--incomplete",
    is_flag=True,
    help="Assume that the records are as the command left them: for the file of an interrupted command.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Restore a deleted topic although its entries are lost: its properties and its cursors.",
)
@change_options
@write_options
@common_options
@click.pass_obj
def undo(
    context: CommandContext,
    file: Path,
    incomplete: bool,
    accept_loss: bool,
    change: ChangeOptions,
    options: WriteOptions,
) -> None:
    """Restore the records that a command changed, from its undo FILE.

    Every record must still be as the command left it; else undo names it and writes nothing. Undo
    restores all records or none. It restores many hundred in pieces; if it is interrupted, the same
    undo continues. Entries of deleted ledgers, which the file lists as lost, cannot be restored.
    """
    undone = undo_files.load(file)
    plans: list[UndoPlan] = []

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        before = await read_before(cluster.metadata, undone.paths)
        found = await plan_undo_of(cluster.metadata, undone, incomplete=incomplete, accept_loss=accept_loss)
        plans.append(found)
        if not change.dry_run:
            await _check_others(cluster.metadata, undone, found, options)
        return CommandChange(
            command="undo",
            subject=undone.subject,
            plan=_shown(undone, found, cluster.metadata.url),
            before=before,
            managed_ledgers=undone.managed_ledgers,
            cursors=await _cursors(cluster, found),
            lost=found.lost,
            pending=bool(found.changes),
        )

    async def act(_: CommandChange) -> Facts:
        async with await open_store(context.url) as store:
            bookkeeper = BookKeeper(store, options.client)
            bookkeeper.on_waiting = report_waiting()
            try:
                await put_back(
                    plans[0],
                    store,
                    bookkeeper,
                    options.config,
                    change_command.on_step,
                    cluster_quorums=options.cluster_quorums,
                )
            finally:
                await bookkeeper.close()
        return fields(restored=len(plans[0].changes))

    run_change(context, change, plan, act, **options.of_change)


async def _check_others(reader: MetadataReader, undone: UndoFile, plan: UndoPlan, options: WriteOptions) -> None:
    """Check for owners of topics that the file does not name as such (M9): a restore changes records of any topic."""
    others = {managed_ledger_of(each.path) for each in plan.changes} - {"", *undone.managed_ledgers}
    for name in sorted(others):
        await check_owner(reader, name, take_over=options.take_over, session_timeout=options.session_timeout)


def _shown(undone: UndoFile, plan: UndoPlan, url: str) -> OutputRecord:
    rows = tuple((each.path, each.action.value, each.version, each.note) for each in plan.restorations)
    elsewhere = () if undone.cluster == url else (f"the file was written for the cluster at {undone.cluster}",)
    facts = fields(undoes=undone.command, cluster=undone.cluster, warnings=elsewhere)
    return OutputRecord(facts, (OutputTable("records", PLAN_COLUMNS, rows),))


async def _cursors(cluster: ReadOnlyCluster, plan: UndoPlan) -> tuple[SavedCursor, ...]:
    """The states in the cursor ledgers that undo deletes, so that undo can be undone too."""
    paths: dict[str, set[str]] = {}
    for each in plan.changes:
        if each.drops is not None:
            paths.setdefault(each.managed_ledger, set()).add(each.path)
    saved: list[SavedCursor] = []
    for managed_ledger, those in paths.items():
        saved += await save_cursors(cluster, managed_ledger, those)
    return tuple(saved)
