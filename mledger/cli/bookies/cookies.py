"""`mledger bookies cookie show|write|delete`: the cookies that identify bookies."""

from pathlib import Path

import click

from mledger.admin.undo.undo_file import ChangedRecord
from mledger.bookie.client.checks.bookie_check import HeldLedgers
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
from mledger.cli.shared.command_groups import CommandGroup
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.output.results import OutputRecord, Value, fields
from mledger.cli.shared.read_only import ReadOnlyCluster, read_only_cluster
from mledger.metastore.cluster.bookies import list_bookies
from mledger.metastore.cluster.cookies import Cookie, decode_cookie, delete_cookie, encode_cookie
from mledger.metastore.cluster.layout import instance_id
from mledger.metastore.errors import NodeExists, NodeNotFound, RecordError
from mledger.metastore.records.paths import LEDGERS, check_bookie_id, cookie_path
from mledger.metastore.store import MetadataReader, Node
from mledger.metastore.url import open_store
from mledger.metastore.write_verification import put_own

_Facts = dict[str, Value]

bookie_argument = click.argument("bookie_id", metavar="BOOKIE")
force_option = click.option("--force", is_flag=True, help="Change the cookie although the bookie is registered.")


@click.group(cls=CommandGroup)
def cookie() -> None:
    """Show, write or delete a bookie's cookie: without it a bookie with empty directories can start."""


@cookie.command(epilog="Example: mledger bookies cookie show 127.0.0.1:3181")
@bookie_argument
@click.option("--raw", is_flag=True, help="The stored cookie, in the format of a bookie's file VERSION.")
@common_options
@click.pass_obj
def show(context: CommandContext, bookie_id: str, raw: bool) -> None:
    """Show the cookie of BOOKIE: its directories and its cluster."""
    node = context.run(_read(context.url, check_bookie_id(bookie_id)))
    if raw:
        click.echo(node.data, nl=False)
        return
    found = decode_cookie(node.data, cookie_path(bookie_id))
    context.output.record(OutputRecord(fields(**_facts(found), metadata_version=node.version)))


@cookie.command(
    epilog="Example: mledger bookies cookie write 127.0.0.1:3181 --journal-dir /j --ledger-dir /l --dry-run"
)
@bookie_argument
@click.option("--file", "source", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A cookie file.")
@click.option("--journal-dir", help="The bookie's journal directory, for a new cookie.")
@click.option("--ledger-dir", "ledger_dirs", multiple=True, help="A ledger directory; may be repeated.")
@click.option("--index-dir", "index_dirs", multiple=True, help="An index directory; may be repeated.")
@force_option
@change_options
@common_options
@click.pass_obj
def write(
    context: CommandContext,
    bookie_id: str,
    source: Path | None,
    journal_dir: str | None,
    ledger_dirs: tuple[str, ...],
    index_dirs: tuple[str, ...],
    force: bool,
    change: ChangeOptions,
) -> None:
    """Create or replace the cookie of BOOKIE, from --file or from the given directories."""
    check_bookie_id(bookie_id)
    if (source is None) == (journal_dir is None or not ledger_dirs):
        raise click.UsageError("no content for the cookie: give --file FILE, or --journal-dir and --ledger-dir")

    given = None if source is None else decode_cookie(source.read_bytes(), str(source))

    async def make(cluster: ReadOnlyCluster) -> Cookie:
        cluster_id = await instance_id(cluster.metadata)
        if given is None:
            assert journal_dir is not None
            return Cookie(bookie_id, journal_dir, ledger_dirs, cluster_id, index_dirs or None)
        if given.instance_id not in (None, cluster_id):
            raise click.UsageError(
                f"{source} is a cookie of the cluster {given.instance_id}, and this one is {cluster_id}: with it the "
                "bookie could not start"
            )
        return given

    made: list[Cookie] = []

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        wanted = await make(cluster)
        if wanted.bookie_id != bookie_id:
            raise click.UsageError(f"{source} is the cookie of {wanted.bookie_id}, not of {bookie_id}")
        made.append(wanted)
        return await _planned(cluster, "bookies cookie write", bookie_id, force, wanted)

    async def act(planned: CommandChange) -> Facts:
        record, data = planned.before[0], encode_cookie(made[-1])
        async with await open_store(context.url) as store:
            await _check_away(store, bookie_id, force)
            change_command.on_step("write cookie")
            if record.before is None:
                await store.create(record.path, data, parents=True)
            else:
                await put_own(store, record.path, data, record.before.version)
        return fields(written=True)

    run_change(context, change, plan, act)


@cookie.command(epilog="Example: mledger bookies cookie delete 127.0.0.1:3181 --dry-run")
@bookie_argument
@force_option
@change_options
@common_options
@click.pass_obj
def delete(context: CommandContext, bookie_id: str, force: bool, change: ChangeOptions) -> None:
    """Delete the cookie of a BOOKIE that is gone permanently or will start with empty directories."""
    check_bookie_id(bookie_id)

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        await _cookie(cluster, bookie_id)
        return await _planned(cluster, "bookies cookie delete", bookie_id, force, None)

    async def act(planned: CommandChange) -> Facts:
        before = planned.before[0].before
        assert before is not None
        async with await open_store(context.url) as store:
            await _check_away(store, bookie_id, force)
            change_command.on_step("delete cookie")
            await delete_cookie(store, bookie_id, before.version)
        return fields(deleted=True)

    run_change(context, change, plan, act)


async def _planned(
    cluster: ReadOnlyCluster, command: str, bookie_id: str, force: bool, wanted: Cookie | None
) -> CommandChange:
    before = await read_before(cluster.metadata, [cookie_path(bookie_id)])
    registered = await _check_away(cluster.metadata, bookie_id, force)
    warnings = ["the bookie is registered and running: it cannot start again with another cookie"] if registered else []
    held = (await cluster.bookies.bookie_check().held_by([bookie_id]))[bookie_id] if wanted is None else HeldLedgers()
    if held.count:
        copies = "their copies are lost if it starts empty; `ledgers list --bookie` shows these ledgers"
        warnings.append(f"ledgers that name it: {held.count}; {copies}")
    if held.unreadable:
        warnings.append(f"ledgers that may name it, and whose metadata cannot be read: {held.unreadable}")
    shown = fields(
        bookie_id=bookie_id,
        cookie_before=_facts_before(before[0]),
        cookie_after=None if wanted is None else _facts(wanted),
        warnings=tuple(warnings),
    )
    same = wanted is not None and before[0].before is not None and before[0].before.data == encode_cookie(wanted)
    return CommandChange(command=command, subject=bookie_id, plan=OutputRecord(shown), before=before, pending=not same)


async def _check_away(reader: MetadataReader, bookie_id: str, force: bool) -> bool:
    """Whether the bookie is registered. Raises NodeExists if it is, unless `force`."""
    await reader.sync()
    registered = any(each.bookie_id == bookie_id for each in await list_bookies(reader))
    if registered and not force:
        raise NodeExists(
            f"nothing was changed: the bookie {bookie_id} is registered; stop it first, or use --force",
            cookie_path(bookie_id),
        )
    return registered


def _facts_before(record: ChangedRecord) -> _Facts | None:
    """The cookie that there is; of one that cannot be read the reason, and its first bytes in hexadecimal (M12)."""
    if record.before is None:
        return None
    data = record.before.data
    try:
        return _facts(decode_cookie(data, record.path))
    except RecordError as error:
        return unreadable_record(error, data)


def _facts(found: Cookie) -> _Facts:
    return {
        "bookie_id": found.bookie_id,
        "journal_dir": found.journal_dir,
        "ledger_dirs": found.ledger_dirs,
        "index_dirs": found.index_dirs,
        "instance_id": found.instance_id,
        "version": found.version,
    }


async def _cookie(cluster: ReadOnlyCluster, bookie_id: str) -> Node:
    path = cookie_path(bookie_id)
    try:
        return await cluster.metadata.get(path)
    except NodeNotFound:
        (known,) = await cluster.metadata.children_many([f"{LEDGERS}/cookies"])
        raise NodeNotFound(
            f"there is no cookie of {bookie_id}: the cluster has those of {', '.join(sorted(known or ())) or 'nobody'}",
            path,
        ) from None


async def _read(url: str, bookie_id: str) -> Node:
    async with read_only_cluster(url) as cluster:
        return await _cookie(cluster, bookie_id)
