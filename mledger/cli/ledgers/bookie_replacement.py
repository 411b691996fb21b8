"""`mledger ledgers replace-bookie`: replaces a bookie's id in the ensembles of closed ledgers, with undo.

Only a ledger of which the other bookie has every copy that it is to answer for is changed: that bookie was asked for
each of them, by reads that fence nothing, and their digests were checked.
"""

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import click
from msgspec.structs import replace

from mledger.admin.undo.undo_file import ChangedRecord
from mledger.bookie.client.plans.replicas import CopyRun, first_entry_of
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.bookie.errors import BookieUnavailable
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
from mledger.cli.shared.output.results import Output, OutputRecord, OutputTable, columns, fields
from mledger.cli.shared.read_only import PATIENCE, ReadOnlyCluster
from mledger.metastore.batched_store import plan_multis
from mledger.metastore.cluster.bookies import list_bookies
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.cluster.underreplication import decode_lock, encode_lock
from mledger.metastore.errors import BadVersion, NodeExists, NodeNotFound, RecordError
from mledger.metastore.records.ledger_codec import decode_ledger_metadata, encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState
from mledger.metastore.records.node_path import parent_of
from mledger.metastore.records.paths import (
    check_bookie_id,
    cookie_path,
    ledger_id_from_path,
    ledger_path,
    underreplication_lock_path,
)
from mledger.metastore.runtime.name_lists import shorten
from mledger.metastore.store import Create, Delete, MetadataReader, MetadataStore, Operation, Put
from mledger.metastore.url import open_store
from mledger.metastore.write_verification import multi_own

_AT_ONCE = 4
_READS_AT_ONCE = 8  # of whole entries, which are to come within the read time-out


@dataclass(frozen=True, slots=True)
class BookieLedgers:
    """The ledgers that name a bookie: those to change, and those to skip, each with the reason."""

    change: tuple[int, ...]
    left: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class KnownBookie:
    """What the cluster knows of a bookie: whether it is registered now, and whether it has a cookie."""

    bookie_id: str
    registered: bool
    cookie: bool


@click.command("replace-bookie", epilog="Example: mledger ledgers replace-bookie 10.0.0.1:3181 bookie-1 --dry-run")
@click.argument("source", metavar="BOOKIE")
@click.argument("target", metavar="OTHER")
@click.option("--limit", type=click.IntRange(1), help="The maximum number of ledgers to change.  [default: all]")
@click.option("--force", is_flag=True, help="Replace even if BOOKIE is registered, which then deletes its copies.")
@change_options
@common_options
@click.pass_obj
def replace_bookie(
    context: CommandContext, source: str, target: str, limit: int | None, force: bool, change: ChangeOptions
) -> None:
    """Replace BOOKIE with OTHER in the metadata of every ledger of which OTHER has the copies of BOOKIE.

    Use it after a change of a bookie's id, or after a copy of its entries. The command copies no
    entries. It reads every copy from OTHER and skips a ledger of which OTHER lacks one, and open
    ledgers, whose writers own their metadata.
    """
    check_bookie_id(source)
    check_bookie_id(target)

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        replaced = await _check_known(cluster.metadata, source, target, force=force)
        found = await _find(context.output, cluster, source, target)
        before = await read_before(cluster.metadata, [ledger_path(ledger_id) for ledger_id in found.change])
        _check_still(before, source, target)
        locked = await _find_locked(cluster.metadata, found.change)
        free = [record for record in before if ledger_id_from_path(record.path) not in locked]
        whole, lacking = await _check_copies(context.output, cluster.bookies, free, source, target, limit)
        chosen = whole[:limit]
        lacking = (*locked.items(), *lacking)
        skipped = set(found.change) - set(chosen) - {ledger_id for ledger_id, _ in lacking}
        left = [*found.left, *lacking, *((ledger_id, "beyond the limit") for ledger_id in sorted(skipped))]
        paths = {ledger_path(ledger_id) for ledger_id in chosen}
        return CommandChange(
            command="ledgers replace-bookie",
            subject=f"{source} {target}",
            plan=OutputRecord(
                fields(
                    bookie=source,
                    other=target,
                    ledgers=chosen,
                    ledgers_to_change=len(chosen),
                    warnings=(f"{source} is registered and serves its entries",) if replaced.registered else (),
                ),
                (OutputTable("left", columns("ledger_id", "reason"), tuple(left)),),
            ),
            before=tuple(record for record in before if record.path in paths),
            lost=plan_losses(replaced) if chosen else (),
            pending=bool(chosen),
        )

    async def act(planned: CommandChange) -> Facts:
        async with await open_store(context.url) as store:
            await store.sync()
            await _check_known(store, source, target, force=force)  # they may have changed since the plan was made
            await _replace(store, planned.before, source, target)
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


def plan_losses(replaced: KnownBookie) -> tuple[str, ...]:
    """What undo cannot bring back: the copies of the replaced bookie, which bookies delete (`excess_ledgers`)."""
    copies = f"the copies of {replaced.bookie_id}"
    if replaced.registered:
        return (f"{copies}: it is registered, and bookies delete ledgers that no longer name them",)
    if replaced.cookie:
        return (f"{copies}, if it runs again before undo: bookies delete ledgers that no longer name them",)
    return ()


def why_lacking(target: str, bad: Sequence[CopyRun]) -> str | None:
    """Why a ledger is skipped of which `target` has these bad copies; None if there are none."""
    if not bad:
        return None
    runs = [
        f"entry {run.first} ({run.reason})"
        if run.count == 1
        else f"{run.count:,} entries from {run.first} to {run.last} ({run.reason})"
        for run in bad
    ]
    return f"{target} has no good copy of {shorten(runs)}"


def _metadata(record: ChangedRecord) -> LedgerMetadata:
    assert record.before is not None
    return decode_ledger_metadata(record.before.data, record.path)


def _check_still(records: Sequence[ChangedRecord], source: str, target: str) -> None:
    """Raise BadVersion for a ledger that was changed or deleted since it was listed, so that it must be left."""
    for record in records:
        if record.before is not None and why_left(_metadata(record), source, target) is None:
            continue
        raise BadVersion(f"{record.path} was changed during planning: run the command again", record.path)


async def _find(output: Output, cluster: ReadOnlyCluster, source: str, target: str) -> BookieLedgers:
    change: list[int] = []
    left: list[tuple[int, str]] = []
    ledgers = LedgerStoreReader(cluster.metadata)
    with output.progress("reading", "ledgers") as progress:
        task = progress.add_task("", total=None)
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
            progress.advance(task, len(page))
    return BookieLedgers(tuple(change), tuple(left))


async def _check_copies(
    output: Output,
    bookies: BookKeeperReader,
    records: Sequence[ChangedRecord],
    source: str,
    target: str,
    limit: int | None,
) -> tuple[tuple[int, ...], tuple[tuple[int, str], ...]]:
    """The ledgers of which `target` has every copy, at least `limit` of them if there are, and those it lacks some of.

    Raises BookieUnavailable if it does not answer for all of them.
    """
    waiting = deque(records)
    whole: list[int] = []
    lacking: list[tuple[int, str]] = []
    with output.progress("checking", "ledgers") as progress:
        task = progress.add_task("", total=len(records))

        async def work() -> None:
            while waiting and (limit is None or len(whole) < limit):
                record = waiting.popleft()
                ledger_id = ledger_id_from_path(record.path)
                found = await bookies.check_other_bookie(ledger_id, _metadata(record), source, target)
                reason = why_lacking(target, found.bad)
                if reason is None:
                    whole.append(ledger_id)
                else:
                    lacking.append((ledger_id, reason))
                progress.advance(task)

        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(_AT_ONCE):
                    workers.create_task(work())
        except ExceptionGroup as errors:  # `except*` would wrap what is raised before Python 3.11.4
            away, others = errors.split(BookieUnavailable)
            if away is None or others is not None:
                raise
            raise _no_answer(target, away.exceptions[0]) from errors
    return tuple(sorted(whole)), tuple(sorted(lacking))


async def _find_locked(reader: MetadataReader, ledger_ids: Sequence[int]) -> dict[int, str]:
    """Those of the ledgers whose lock of re-replication is held, each with the reason to skip it."""
    paths = [underreplication_lock_path(ledger_id) for ledger_id in ledger_ids]
    nodes = await reader.get_many(paths)
    return {
        ledger_id: f"{_holder(node.data)} holds its lock: it is re-replicated, or a copy of it deleted"
        for ledger_id, node in zip(ledger_ids, nodes, strict=True)
        if node is not None
    }


def _holder(lock: bytes) -> str:
    try:
        return decode_lock(lock)
    except RecordError:
        return "somebody"


async def _replace(store: MetadataStore, records: Sequence[ChangedRecord], source: str, target: str) -> None:
    """Change the records, as many at once as fit one request, each with its ledger's lock.

    Raises:
        NodeExists: somebody else holds a ledger's lock.
        BadVersion: `target` has lost a ledger since the plan was made, or a record has changed.
        BookieUnavailable: `target` does not answer.
    """
    with contextlib.suppress(NodeExists):
        await store.create(parent_of(underreplication_lock_path(0)), parents=True)
    data = encode_lock(f"mledger-{socket.gethostname()}-{os.getpid()}")
    locks = [underreplication_lock_path(ledger_id_from_path(record.path)) for record in records]
    changes: list[list[Operation]] = []
    for record, lock in zip(records, locks, strict=True):
        assert record.before is not None
        changed = encode_ledger_metadata(with_bookie(_metadata(record), source, target))
        changes.append([Put(record.path, changed, record.before.version), Delete(lock)])
    bookies = BookKeeperReader(store, PATIENCE)
    try:
        for part in plan_multis(changes):
            some = slice(part.start, part.stop)
            await _lock(store, records[some], locks[some], data)
            await _check_still_there(bookies, records[some], source, target)
            change_command.on_step("replace bookie")
            await multi_own(store, [operation for change in changes[some] for operation in change])
    finally:
        await bookies.close()


async def _lock(store: MetadataStore, records: Sequence[ChangedRecord], locks: Sequence[str], data: bytes) -> None:
    """Take the ledgers' locks, which end with the session at the latest; NodeExists if somebody else has one."""
    try:
        await multi_own(store, [Create(lock, data, ephemeral=True) for lock in locks])
    except NodeExists as error:
        raise NodeExists(
            f"{_from(records)}: somebody holds {error.path}, so a ledger is re-replicated, or a copy of it deleted, "
            "just now; run the command again",
            error.path,
        ) from error


async def _check_still_there(
    bookies: BookKeeperReader, records: Sequence[ChangedRecord], source: str, target: str
) -> None:
    """Raise BadVersion if `target` has lost a ledger since the plan was made: bookies delete whole ledgers."""
    asked = [
        (record.path, ledger_id_from_path(record.path), entry)
        for record in records
        if (entry := first_entry_of(_metadata(record), source)) is not None
    ]
    for start in range(0, len(asked), _READS_AT_ONCE):
        some = asked[start : start + _READS_AT_ONCE]
        try:
            answers = await asyncio.gather(*(bookies.has_copy(ledger, entry, target) for _, ledger, entry in some))
        except BookieUnavailable as error:
            raise BookieUnavailable(f"{_from(records)}: {target} does not answer for its copies: {error}") from error
        for (path, ledger_id, entry), there in zip(some, answers, strict=True):
            if not there:
                lost = f"{target} no longer has entry {entry} of ledger {ledger_id}"
                raise BadVersion(f"{_from(records)}: {lost}; run the command again", path)


def _from(records: Sequence[ChangedRecord]) -> str:
    """What was not changed by a command that fails at these records."""
    return f"no ledger from {ledger_id_from_path(records[0].path)} on was changed"


def _no_answer(target: str, error: BaseException) -> BookieUnavailable:
    return BookieUnavailable(f"nothing was changed: {target} does not answer for its copies: {error}")


async def _check_known(reader: MetadataReader, source: str, target: str, *, force: bool) -> KnownBookie:
    """The replaced bookie.

    Raises:
        NodeExists: it is registered; not with `force`.
        NodeNotFound: the cluster does not know the other one.
        BookieUnavailable: the other one is not registered, so that it cannot be asked for its copies.
    """
    registered = {each.bookie_id for each in await list_bookies(reader)}
    if source in registered and not force:
        raise NodeExists(
            f"nothing was changed: {source} is registered and serves its entries; use --force to replace it anyway"
        )
    if target not in registered:
        if await reader.exists(cookie_path(target)) is None:
            raise NodeNotFound(f"nothing was changed: the cluster has no bookie {target}; see `mledger bookies list`")
        raise BookieUnavailable(
            f"nothing was changed: {target} is not registered, so it cannot be asked; start it, and try again"
        )
    return KnownBookie(source, source in registered, await reader.exists(cookie_path(source)) is not None)
