"""`mledger ledgers replace-bookie`: replaces a bookie's id in the ensembles of closed ledgers, with undo."""

from collections.abc import Sequence
from dataclasses import dataclass

import click
from msgspec.structs import replace

from mledger.admin.undo.undo_file import ChangedRecord
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
from mledger.cli.shared.output.results import OutputRecord, OutputTable, columns, fields
from mledger.cli.shared.read_only import ReadOnlyCluster
from mledger.metastore.batched_store import plan_multis
from mledger.metastore.cluster.bookies import list_bookies
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.errors import BadVersion, NodeExists, NodeNotFound, RecordError
from mledger.metastore.records.ledger_codec import decode_ledger_metadata, encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState
from mledger.metastore.records.paths import check_bookie_id, cookie_path, ledger_id_from_path, ledger_path
from mledger.metastore.store import MetadataReader, Operation, Put
from mledger.metastore.url import open_store
from mledger.metastore.write_verification import multi_own


@dataclass(frozen=True, slots=True)
class BookieLedgers:
    """The ledgers that name a bookie: those to change, and those to skip, each with the reason."""

    change: tuple[int, ...]
    left: tuple[tuple[int, str], ...]


@click.command("replace-bookie", epilog="Example: mledger ledgers replace-bookie 10.0.0.1:3181 bookie-1 --dry-run")
@click.argument("source", metavar="BOOKIE")
@click.argument("target", metavar="OTHER")
@click.option("--limit", type=click.IntRange(1), help="The maximum number of ledgers to change.  [default: all]")
@click.option("--force", is_flag=True, help="Replace even if BOOKIE is registered or the cluster does not know OTHER.")
@change_options
@common_options
@click.pass_obj
def replace_bookie(
    context: CommandContext, source: str, target: str, limit: int | None, force: bool, change: ChangeOptions
) -> None:
    """Replace BOOKIE with OTHER in the metadata of every ledger: OTHER has the entries of BOOKIE.

    Use it after a change of a bookie's id, or after a copy of its entries. The command copies no
    entries. It skips open ledgers, whose writers own their metadata.
    """
    check_bookie_id(source)
    check_bookie_id(target)

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        warnings = await _check_known(cluster.metadata, source, target, force=force)
        found = await _find(cluster, source, target)
        chosen = found.change[:limit]
        before = await read_before(cluster.metadata, [ledger_path(ledger_id) for ledger_id in chosen])
        _check_still(before, source, target)
        left = [*found.left, *((ledger_id, "beyond the limit") for ledger_id in found.change[len(chosen) :])]
        return CommandChange(
            command="ledgers replace-bookie",
            subject=f"{source} {target}",
            plan=OutputRecord(
                fields(bookie=source, other=target, ledgers=chosen, ledgers_to_change=len(chosen), warnings=warnings),
                (OutputTable("left", columns("ledger_id", "reason"), tuple(left)),),
            ),
            before=before,
            pending=bool(chosen),
        )

    async def act(planned: CommandChange) -> Facts:
        writes: list[Operation] = []
        for record in planned.before:
            assert record.before is not None
            metadata = decode_ledger_metadata(record.before.data, record.path)
            data = encode_ledger_metadata(with_bookie(metadata, source, target))
            writes.append(Put(record.path, data, record.before.version))
        async with await open_store(context.url) as store:
            await store.sync()
            await _check_known(store, source, target, force=force)  # it may have come back since the plan was made
            for part in plan_multis([[write] for write in writes]):
                change_command.on_step("replace bookie")
                await multi_own(store, writes[part.start : part.stop])
        return fields(changed=tuple(ledger_id_from_path(record.path) for record in planned.before))

    run_change(context, change, plan, act)


def with_bookie(metadata: LedgerMetadata, source: str, target: str) -> LedgerMetadata:
    """The metadata with `source` replaced by `target` in every ensemble."""
    segments = tuple(
        segment._replace(bookies=tuple(target if bookie == source else bookie for bookie in segment.bookies))
        for segment in metadata.segments
    )
    return replace(metadata, segments=segments)


def why_left(metadata: LedgerMetadata, source: str, target: str) -> str | None:
    """Why a ledger that names `source` is skipped; None if it is changed."""
    if metadata.state is not LedgerState.CLOSED:
        return f"it is {metadata.state.name}"
    if any(source in segment.bookies and target in segment.bookies for segment in metadata.segments):
        return f"{target} is in the same ensemble already"
    return None


def _check_still(records: Sequence[ChangedRecord], source: str, target: str) -> None:
    """Raise BadVersion for a ledger that was changed or deleted since it was listed, so that it must be left."""
    for record in records:
        if record.before is not None:
            metadata = decode_ledger_metadata(record.before.data, record.path)
            if why_left(metadata, source, target) is None:
                continue
        raise BadVersion(f"{record.path} was changed during planning: run the command again", record.path)


async def _find(cluster: ReadOnlyCluster, source: str, target: str) -> BookieLedgers:
    change: list[int] = []
    left: list[tuple[int, str]] = []
    ledgers = LedgerStoreReader(cluster.metadata)
    async for page in ledgers.list():
        for ledger_id, each in zip(page, await ledgers.read_each(page), strict=True):
            if isinstance(each, RecordError):
                left.append((ledger_id, f"it may name {source}: {each}"))
                continue
            if each is None or not any(source in segment.bookies for segment in each[0].segments):
                continue
            reason = why_left(each[0], source, target)
            if reason is None:
                change.append(ledger_id)
            else:
                left.append((ledger_id, reason))
    return BookieLedgers(tuple(change), tuple(left))


async def _check_known(reader: MetadataReader, source: str, target: str, *, force: bool) -> tuple[str, ...]:
    """What is wrong with the two bookies: warnings with `force`, and errors without."""
    registered = {each.bookie_id for each in await list_bookies(reader)}
    if force:
        left = f"{source} is registered: bookies delete ledgers that name them no more, and what {target} lacks is lost"
        return (left,) if source in registered else ()
    if source in registered:
        raise NodeExists(
            f"nothing was changed: {source} is registered and serves its entries; use --force to replace it anyway"
        )
    if target not in registered and await reader.exists(cookie_path(target)) is None:
        raise NodeNotFound(f"nothing was changed: the cluster has no bookie {target}; use --force to replace anyway")
    return ()
