"""`mledger metadata backup|restore`: writes the metadata tree to a file, and restores it with undo."""

import contextlib
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import click

from mledger.admin.references.restored_ledgers import (
    find_foreign,
    find_forgotten,
    ledgers_to_keep,
    plan_ids,
    plan_kept_now,
    plan_without_records,
)
from mledger.cli.metadata.restore_losses import plan_losses
from mledger.cli.shared.changes import change_command
from mledger.cli.shared.changes.change_command import (
    ChangeOptions,
    CommandChange,
    Facts,
    change_options,
    read_before,
    run_change,
)
from mledger.cli.shared.changes.consent import check_terminal
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.errors import writing_file
from mledger.cli.shared.messages import messages
from mledger.cli.shared.names import complete_paths
from mledger.cli.shared.output.results import OutputRecord, OutputTable, columns, fields
from mledger.cli.shared.read_only import ReadOnlyCluster
from mledger.errors import ForeignLedger, OwnedElsewhere
from mledger.ledgers.orphans.pending_records import keep_ledgers
from mledger.metastore.backup.backup_file import (
    WORLD_ACL,
    BackupHead,
    BackupNode,
    BackupWriter,
    check_backup,
    create,
    read_backup,
)
from mledger.metastore.backup.restore import Live, RestoreAction, RestorePlan, find_live, plan_restore, plan_scope
from mledger.metastore.backup.restore import restore as put_back
from mledger.metastore.backup.tree_reader import copy_tree
from mledger.metastore.errors import NodeNotFound
from mledger.metastore.records.node_path import check_path
from mledger.metastore.runtime.durable_files import take_new_name
from mledger.metastore.url import has_ledgers_apart, open_store, open_synced_reader

ROWS = 1000
MASKED = re.compile(r"digest:.*:x:[a-z]+")


@click.command(epilog="Example: mledger metadata backup metadata.gz")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--path",
    metavar="PATH",
    default="/",
    show_default=True,
    shell_complete=complete_paths,
    help="Copy only this node and those below it.",
)
@common_options
@click.pass_obj
def backup(context: CommandContext, file: Path, path: str) -> None:
    """Copy the metadata tree, with versions and access control lists, to FILE; change nothing.

    FILE must not exist; a name that ends in .gz compresses it. Other clients may write meanwhile:
    each node is copied as it is when the backup reaches it, ledgers before the topics that name
    them.
    """
    if file.exists():
        raise click.UsageError(f"{file} exists already: a backup never overwrites a file")
    if not os.access(file.parent, os.W_OK):
        raise click.UsageError(f"{file.parent} is not a directory that can be written: name another FILE")
    nodes, masked = context.run(_backup(context, file, check_path(path)))
    if masked:
        messages.warning(
            "digests in access control lists are hidden from this login; restored from this backup, "
            "they would admit nobody: back up with a login that may administer the nodes"
        )
    with messages.made(f"{file} was written"):
        context.output.record(OutputRecord(fields(file=str(file), nodes=nodes, size=file.stat().st_size)))


@click.command(epilog="Example: mledger metadata restore metadata.json --path /managed-ledgers --dry-run")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--path", metavar="PATH", default="/", show_default=True, help="Restore only this node and those below it."
)
@click.option("--remove", is_flag=True, help="Remove nodes that are not in the backup.")
@change_options
@common_options
@click.pass_obj
def restore(context: CommandContext, file: Path, path: str, remove: bool, change: ChangeOptions) -> None:
    """Restore the nodes of a backup FILE: create the missing ones, change those that differ.

    It is rejected while bookies are registered (if ledgers change) or while there are live owners
    or brokers (if anything else changes), and where ledger ids of the backup stand for other
    ledgers. Ephemeral nodes are never written, and neither the ledger ids nor
    the records of ledgers go back. Nodes outside the part of the tree that FILE holds are never touched.
    """
    head, nodes = check_backup(file)
    start = plan_scope(check_path(path), check_path(head.path))
    plans: list[tuple[RestorePlan, list[tuple[int, str]]]] = []
    _prepare_chroot(context, nodes, change)

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        with context.output.progress("comparing", "nodes") as progress:
            task = progress.add_task("", total=None)
            found = await plan_restore(
                cluster.metadata,
                read_backup(file),
                start,
                remove=remove,
                apart=has_ledgers_apart(context.url),
                count=lambda count: progress.advance(task, count),
            )
        found = plan_ids(found, read_backup(file))
        live = await find_live(cluster.metadata, found.touched)
        foreign = await find_foreign(cluster.metadata, lambda: read_backup(file), found)
        if not change.dry_run:
            _refuse(live)
            _refuse_foreign(foreign)
        forgotten = await find_forgotten(cluster.metadata, lambda: read_backup(file), found)
        kept = ledgers_to_keep(forgotten)
        found = await plan_without_records(cluster.metadata, found, kept)
        plans.append((found, kept))
        before = await read_before(cluster.metadata, found.altered)
        return CommandChange(
            command="metadata restore",
            subject=file.name,
            plan=_shown(head, nodes, start, found, tuple(map(str, live[:5])), tuple(foreign[:5])),
            before=before,
            lost=plan_losses(found, await _restricted(cluster, found), forgotten),
            pending=found.pending,
        )

    async def act(_: CommandChange) -> Facts:
        found, kept = plans[0]
        with context.output.progress("restoring", "nodes") as progress:
            task = progress.add_task("", total=len(found.touched))
            async with await open_store(context.url) as store:
                await store.sync()
                _refuse(await find_live(store, found.touched))  # one may have started since the plan was made
                change_command.on_step("restore")
                # before, as a restore that is interrupted and run again does not find them; the backup's own come later
                await keep_ledgers(store, plan_kept_now(kept, found.touched))
                await put_back(store, found, lambda: read_backup(file), lambda count: progress.advance(task, count))
                await keep_ledgers(store, kept)
        return fields(restored=True)

    run_change(context, change, plan, act)


def _refuse_foreign(foreign: Sequence[str]) -> None:
    """Raise ForeignLedger if ids of the backup stand for other ledgers here."""
    if foreign:
        more = f", and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise ForeignLedger(
            f"nothing was restored: {foreign[0]}{more}: the backup is of another cluster, or of this one before it was "
            "set up anew; restore into an empty chroot"
        )


def _refuse(live: Sequence[Live]) -> None:
    """Raise OwnedElsewhere if there is a live user of what would change."""
    if live:
        raise OwnedElsewhere(
            f"{live[0]} would lose the metadata that it uses"
            + (f", and {len(live) - 1} more" if len(live) > 1 else "")
            + ": stop them, or restore into an empty chroot"
        )


async def _backup(context: CommandContext, file: Path, start: str) -> tuple[int, bool]:
    masked = False
    async with await open_synced_reader(context.url) as reader:
        if await reader.exists(start) is None:
            raise NodeNotFound(f"there is no node {start} to back up", start)
        made_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        # no other backup's: neither one of the same name in progress nor one that was killed is in the way
        part = file.with_name(f".{file.stem}.{secrets.token_hex(4)}.part{file.suffix}")
        try:
            with context.output.progress("copying", "nodes") as progress, _created(part, file) as out:
                task = progress.add_task("", total=None)
                with writing_file(file):
                    writer = BackupWriter(out, BackupHead(reader.url, made_at, start))

                def add(node: BackupNode) -> None:
                    nonlocal masked
                    masked = masked or any(MASKED.fullmatch(entry) is not None for entry in node.acl)
                    with writing_file(file):
                        writer.add(node)

                await copy_tree(reader, add, start, lambda count: progress.advance(task, count))
                with writing_file(file):
                    writer.end()
            with writing_file(file):
                _keep(part, file)
        finally:
            part.unlink(missing_ok=True)
    return writer.nodes, masked


@contextlib.contextmanager
def _created(part: Path, file: Path) -> Iterator[BinaryIO]:
    """The new file `part`, open, of what is to be `file`; FileNotWritten, also for what is written as it is closed."""
    with writing_file(file):
        out = create(part)
    try:
        yield out
    finally:
        with writing_file(file):
            out.close()


def _keep(part: Path, file: Path) -> None:
    """Give the finished copy its name, durably, without overwriting a file."""
    with part.open("rb") as written:
        os.fsync(written.fileno())
    take_new_name(part, file)


def _prepare_chroot(context: CommandContext, nodes: int, change: ChangeOptions) -> None:
    """Create the chroot if it is not there, unless you refuse; the plan compares the backup with what it has.

    Raises NodeNotFound in a dry run, click.UsageError without a terminal to ask at, and click.Abort.
    """
    missing = context.run(_missing_chroot(context.url))
    if missing is None:
        return
    if change.dry_run:
        raise NodeNotFound(
            f"there is no node {missing} to compare with: without --dry-run the command creates it, and below it "
            f"the {nodes:,} nodes of the backup, without the ephemeral ones",
            missing,
        )
    if not change.yes:
        check_terminal()
        click.confirm(
            f"There is no node {missing} to restore the {nodes:,} nodes into: create it?", abort=True, err=True
        )
    context.run(_create_chroot(context.url))


async def _missing_chroot(url: str) -> str | None:
    """The chroot if it is not there."""
    try:
        async with await open_synced_reader(url):
            return None
    except NodeNotFound as error:
        return error.path


async def _create_chroot(url: str) -> None:
    async with await open_store(url, create_chroot=True):
        pass


def _shown(
    head: BackupHead, nodes: int, start: str, plan: RestorePlan, live: tuple[str, ...], foreign: tuple[str, ...]
) -> OutputRecord:
    rows = tuple((step.path, step.action.value, step.version) for step in plan.steps[:ROWS])
    counts = {action: len(plan.paths(action)) for action in RestoreAction}
    facts = fields(
        made_at=head.made_at,
        backup_of=head.cluster,
        path=start,
        nodes_in_backup=nodes,
        create=counts[RestoreAction.CREATE],
        change=counts[RestoreAction.CHANGE],
        remove=counts[RestoreAction.REMOVE],
        fence=counts[RestoreAction.FENCE],
        keep=counts[RestoreAction.KEEP],
        newer=counts[RestoreAction.NEWER],
        same=plan.same,
        skipped=plan.skipped,
        ledger_ids_above=plan.ids_above,
        live=live,
        foreign_ledgers=foreign,
        nodes_shown=len(rows),
    )
    return OutputRecord(facts, (OutputTable("nodes", columns("path", "action", "version"), rows),))


async def _restricted(cluster: ReadOnlyCluster, plan: RestorePlan) -> list[str]:
    """The nodes to remove that have an access control list of their own."""
    restricted: list[str] = []
    removed = plan.paths(RestoreAction.REMOVE)
    for first in range(0, len(removed), ROWS):
        page = removed[first : first + ROWS]
        acls = await cluster.metadata.acl_many(page)
        restricted += [path for path, acl in zip(page, acls, strict=True) if acl and acl != WORLD_ACL]
    return restricted
