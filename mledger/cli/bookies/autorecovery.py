"""`mledger bookies cluster|underreplicated|autorecovery`: BookKeeper's auto-recovery and its metadata."""

import click

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
from mledger.cli.shared.output.results import OutputRecord, OutputTable, Value, columns, fields
from mledger.cli.shared.read_only import ReadOnlyCluster, read_only_cluster
from mledger.metastore.cluster.autorecovery import disable_path, list_marks, lost_bookie_delay_path, read_recovery_state
from mledger.metastore.cluster.layout import instance_id
from mledger.metastore.cluster.underreplication import NOT_KEPT
from mledger.metastore.records.paths import LEDGERS
from mledger.metastore.store import Create, Delete, Operation, Put
from mledger.metastore.url import open_store
from mledger.metastore.write_verification import multi_own

MARK_COLUMNS = columns("ledger_id", "missing_replicas", "since_ms", "replicated_by")
MOST_SECONDS = 2**31 - 1
"""BookKeeper reads the delay as a Java int: its auditor fails on a larger one."""


@click.command(epilog="Example: mledger bookies cluster")
@common_options
@click.pass_obj
def cluster(context: CommandContext) -> None:
    """Show the cluster as BookKeeper sees it: instance id, number of bookies, auto-recovery, auditor."""
    context.output.record(context.run(_cluster(context.url)))


@click.command(epilog="Example: mledger bookies underreplicated --missing 127.0.0.1:3181")
@click.option("--missing", metavar="BOOKIE", help="Only ledgers that lack the replicas of BOOKIE.")
@click.option("--not-missing", metavar="BOOKIE", help="Only ledgers that do not lack the replicas of BOOKIE.")
@common_options
@click.pass_obj
def underreplicated(context: CommandContext, missing: str | None, not_missing: str | None) -> None:
    """List under-replicated ledgers: their missing replicas, since when, and the replicating bookie.

    BookKeeper's auditor marks these ledgers; `ledgers check` reads the copies themselves.
    """
    rows = context.run(_marks(context.url, missing, not_missing))
    context.output.table(OutputTable("ledgers", MARK_COLUMNS, tuple(rows)))


@click.command(epilog="Example: mledger bookies autorecovery --disable --dry-run")
@click.option("--enable/--disable", "enabled", default=None, help="Replicate under-replicated ledgers, or not.")
@click.option(
    "--lost-bookie-delay",
    "delay",
    metavar="SECONDS",
    type=click.IntRange(0, MOST_SECONDS),
    help="How long to wait for a lost bookie.",
)
@change_options
@common_options
@click.pass_obj
def autorecovery(context: CommandContext, enabled: bool | None, delay: int | None, change: ChangeOptions) -> None:
    """Enable or disable BookKeeper's auto-recovery, or set its delay for a lost bookie."""
    if enabled is None and delay is None:
        raise click.UsageError("nothing to set: give --enable, --disable or --lost-bookie-delay SECONDS")

    async def plan(found: ReadOnlyCluster) -> CommandChange:
        wanted = [disable_path()] if enabled is not None else []
        wanted += [lost_bookie_delay_path()] if delay is not None else []
        before = await read_before(found.metadata, wanted)
        state = await read_recovery_state(found.metadata)
        after = state.enabled if enabled is None else enabled
        return CommandChange(
            command="bookies autorecovery",
            subject="autorecovery",
            plan=OutputRecord(
                fields(
                    enabled_before=state.enabled,
                    enabled_after=after,
                    lost_bookie_delay_before=state.lost_bookie_delay_s,
                    lost_bookie_delay_after=state.lost_bookie_delay_s if delay is None else delay,
                )
            ),
            before=before,
            pending=bool(_operations(before, enabled, delay)),
        )

    async def act(planned: CommandChange) -> Facts:
        async with await open_store(context.url) as store:
            change_command.on_step("set autorecovery")
            parent = f"{LEDGERS}/underreplication"
            operations = _operations(planned.before, enabled, delay)
            if await store.exists(parent) is None:
                operations.insert(0, Create(parent))
            await multi_own(store, operations)
            state = await read_recovery_state(store)
        return fields(enabled=state.enabled, lost_bookie_delay=state.lost_bookie_delay_s)

    run_change(context, change, plan, act)


def _operations(before: tuple[ChangedRecord, ...], enabled: bool | None, delay: int | None) -> list[Operation]:
    """The writes that give the nodes the wanted content; none for a node that has it already."""
    found: list[Operation] = []
    for record in before:
        if record.path == disable_path():
            if enabled and record.before is not None:
                found.append(Delete(record.path, record.before.version))
            elif not enabled and record.before is None:
                found.append(Create(record.path))
        else:
            data = str(delay).encode()
            if record.before is None:
                found.append(Create(record.path, data))
            elif record.before.data != data:
                found.append(Put(record.path, data, record.before.version))
    return found


async def _cluster(url: str) -> OutputRecord:
    async with read_only_cluster(url) as found:
        instance = await instance_id(found.metadata)
        state = await read_recovery_state(found.metadata)
        marks = await list_marks(found.metadata)
        registered = await found.bookies.bookies()
        (cookies,) = await found.metadata.children_many([f"{LEDGERS}/cookies"])
    away = sorted(set(cookies or ()) - {each.bookie_id for each in registered})
    read_only = sum(each.read_only for each in registered)
    return OutputRecord(
        fields(
            instance_id=instance,
            bookies=len(registered) + len(away),
            writable=len(registered) - read_only,
            read_only=read_only,
            away=tuple(away),
            auditor=state.auditor,
            autorecovery_enabled=state.enabled,
            lost_bookie_delay=state.lost_bookie_delay_s,
            underreplicated_ledgers=len(marks),
        )
    )


async def _marks(url: str, missing: str | None, not_missing: str | None) -> list[tuple[Value, ...]]:
    async with read_only_cluster(url) as found:
        marks = await list_marks(found.metadata)
    return [
        (each.ledger_id, each.mark.replicas, None if each.mark.ctime == NOT_KEPT else each.mark.ctime, each.worker)
        for each in marks
        if (missing is None or missing in each.mark.replicas)
        and (not_missing is None or not_missing not in each.mark.replicas)
    ]
