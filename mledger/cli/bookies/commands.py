"""`mledger bookies describe|check`: their ledgers, their health, and their cookies."""

import click

from mledger.bookie.client.checks.bookie_check import BookieFindings, BookieProblem, Severity, plan_problems
from mledger.cli.bookies.bookie_list import state_of
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.errors import FAILED, NOT_FOUND, OK, UNAVAILABLE
from mledger.cli.shared.output.results import OutputColumn, OutputRecord, OutputTable, Value, columns, fields
from mledger.cli.shared.read_only import read_only_cluster

CHECK_COLUMNS = (
    *columns("bookie_id", "address", "state"),
    OutputColumn("ledgers"),
    OutputColumn("free_bytes", "free MiB"),
    OutputColumn("problems"),
)
MIB = 1 << 20


@click.command(epilog="Example: mledger bookies describe 127.0.0.1:3181")
@click.argument("bookie_id", metavar="BOOKIE")
@common_options
@click.pass_obj
def describe(context: CommandContext, bookie_id: str) -> None:
    """Show a bookie: its registration, cookie, disk, version, and the ledgers whose metadata name it."""
    ((found,), average) = context.run(_inspect(context.url, (bookie_id,)))
    context.output.record(_described(found, average))


@click.command(epilog="Example: mledger bookies check")
@click.argument("bookie_ids", metavar="[BOOKIE]...", nargs=-1)
@common_options
@click.pass_obj
@click.pass_context
def check(click_context: click.Context, context: CommandContext, bookie_ids: tuple[str, ...]) -> None:
    """Check bookies, by default all: registration, connection, cookie, reads, free disk space, clock.

    Exit code 5 if a bookie is unavailable, 1 for another error. Warnings (read-only, disk nearly
    full, clock off) do not change exit code 0.
    """
    found, _ = context.run(_inspect(context.url, bookie_ids))
    checked = [(each, plan_problems(each)) for each in found]
    rows = tuple(_row(each, problems, json=context.output.for_programs) for each, problems in checked)
    context.output.table(OutputTable("bookies", CHECK_COLUMNS, rows))
    worst = {problem.severity for _, problems in checked for problem in problems}
    click_context.exit(UNAVAILABLE if Severity.AWAY in worst else FAILED if Severity.ERROR in worst else OK)


def _address(found: BookieFindings) -> str | None:
    return None if found.registration is None else f"{found.registration.host}:{found.registration.port}"


def _row(found: BookieFindings, problems: tuple[BookieProblem, ...], *, json: bool) -> tuple[Value, ...]:
    free = None if found.info is None else found.info.free_bytes
    described = tuple(f"{problem.severity.value}: {problem.what}" for problem in problems)
    shown = free if json or free is None else free // MIB
    return found.bookie_id, _address(found), state_of(found.registration), found.held.count, shown, described


def _described(found: BookieFindings, average: float) -> OutputRecord:
    registration, cookie, info = found.registration, found.cookie, found.info
    facts = fields(
        bookie_id=found.bookie_id,
        address=_address(found),
        state=state_of(registration),
        version=registration.version or None if registration is not None else None,
        metrics=registration.http or None if registration is not None else None,
        journal_directory=None if cookie is None else cookie.journal_dir,
        ledger_directories=() if cookie is None else cookie.ledger_dirs,
        cookie_version=None if cookie is None else cookie.version,
        cluster=None if cookie is None else cookie.instance_id,
        disk_bytes=None if info is None else info.total_bytes,
        free_bytes=None if info is None else info.free_bytes,
        ledgers=found.held.count,
        open_ledgers=found.held.open,
        load=round(found.held.count / average, 2) if average else None,
        clock_off_seconds=None if found.clock_off_s is None else round(found.clock_off_s),
        problems=tuple(f"{problem.severity.value}: {problem.what}" for problem in plan_problems(found)),
    )
    return OutputRecord(facts)


async def _inspect(url: str, bookie_ids: tuple[str, ...]) -> tuple[list[BookieFindings], float]:
    """The findings on these bookies, by default on all, and the average number of ledgers of a bookie."""
    async with read_only_cluster(url) as cluster:
        check = cluster.bookies.bookie_check()
        known = await check.known()
        for bookie_id in bookie_ids:
            if bookie_id not in known:
                raise UnknownBookie(bookie_id, known)
        found = await check.look(bookie_ids or known)
        held = await check.held_by(known) if bookie_ids else {each.bookie_id: each.held for each in found}
        return found, sum(each.count for each in held.values()) / max(len(held), 1)


class UnknownBookie(click.ClickException):
    """The cluster has neither a registration nor a cookie of the bookie."""

    exit_code = NOT_FOUND

    def __init__(self, bookie_id: str, known: list[str]) -> None:
        super().__init__(f"there is no bookie {bookie_id}: the cluster knows {', '.join(known) or 'none'}")
