"""`mledger ledgers check`: checks every copy of every entry and every reference to a ledger; read-only."""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import click

from mledger.admin.references.ledger_audit import LedgerAuditor, ReferenceAudit
from mledger.admin.references.reader import ListedLedger, References, UnreadableRecord, read_origins
from mledger.bookie.client.plans.replicas import CopyRun, LedgerCheck, ReplicaRun
from mledger.bookie.errors import BookieError, BookieUnavailable, NoSuchLedger
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.errors import FAILED, OK, UNAVAILABLE
from mledger.cli.shared.output.results import Output, OutputColumn, OutputRecord, OutputTable, Value, columns, fields
from mledger.cli.shared.read_only import ReadOnlyCluster, read_only_cluster
from mledger.cli.shared.targets import find_targets
from mledger.ledgers.orphans.references import Reference, find_dangling
from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.runtime.rate_limiter import RateLimiter
from mledger.metastore.runtime.times import wall_clock_ms

AT_ONCE = 4
MIN_AGE_S = 60
MIB = 1 << 20
COPY_COLUMNS = columns("ledger_id", "of", "bookie_id", "first", "last", "copies", "reason")
ENTRY_COLUMNS = columns("ledger_id", "of", "entries", "count")
ORIGIN_COLUMNS = columns("ledger_id", "component", "managed_ledger", "cursor", "created_ms", "state", "reason")

min_age_option = click.option(
    "--min-age",
    metavar="SECONDS",
    type=click.IntRange(0),
    default=MIN_AGE_S,
    show_default=True,
    help="The age from which a ledger that nothing names counts as an orphan.",
)


@dataclass(slots=True)
class Findings:
    """What was checked, and what was found."""

    audit: ReferenceAudit
    entries_read: bool
    references_read: bool
    whole: int = 0
    size: int = 0
    entries: int = 0
    checks: list[LedgerCheck] = field(default_factory=list)  # those with findings
    checked: int = 0
    failed: list[tuple[int, str, bool]] = field(
        default_factory=list
    )  # ledger, reason, whether only bookies were unavailable
    of: dict[int, str] = field(default_factory=dict)

    def note(self, check: LedgerCheck) -> None:
        """Add the result for one ledger."""
        self.checked += 1
        self.whole, self.size = self.whole + check.whole, self.size + check.size
        self.entries += check.entries
        if check.bad or check.away or not check.closed:
            self.checks.append(check)

    @property
    def exit_code(self) -> int:
        """1: there are findings; 5: there are none, but some bookies did not answer."""
        audit = self.audit
        unnamed = audit.orphans or audit.unlisted
        if any(check.bad for check in self.checks) or unnamed or audit.dangling or audit.unreadable:
            return FAILED
        if any(not away for _, _, away in self.failed):
            return FAILED
        return UNAVAILABLE if self.failed or audit.undecided or any(each.away for each in self.checks) else OK


@click.command(epilog="Example: mledger ledgers check --all --max-mib 20")
@click.argument("ledger_ids", metavar="[LEDGER]...", type=click.IntRange(0), nargs=-1)
@click.option("--all", "every", is_flag=True, help="All ledgers, and all references to ledgers.")
@click.option("--topic", metavar="TOPIC", help="The ledgers of a topic and its cursors.")
@click.option("--references-only", is_flag=True, help="Read no entries: orphans and dangling references only.")
@click.option(
    "--max-mib", metavar="N", type=click.FloatRange(0, min_open=True), help="Read at most this many MiB per second."
)
@min_age_option
@common_options
@click.pass_obj
def check(
    context: CommandContext,
    ledger_ids: tuple[int, ...],
    every: bool,
    topic: str | None,
    references_only: bool,
    max_mib: float | None,
    min_age: int,
) -> int:
    """Read every entry from every bookie that should have it, and verify its digest.

    It fences, recovers and writes nothing. Missing and damaged copies are listed by bookie. Open
    ledgers are read up to their last-add-confirmed. With --all, ledgers that no topic, cursor,
    schema or pending record names are listed as orphans. With --all or --topic, records that name a
    missing ledger are listed too.

    Exit code 1: there are findings. Exit code 5: there are none, but some bookies were unavailable.
    """
    if bool(ledger_ids) + every + (topic is not None) != 1:
        raise click.UsageError("select ledgers: give their ids, --topic TOPIC or --all")
    if references_only and ledger_ids:
        raise click.UsageError("--references-only needs --topic or --all")
    name = None if topic is None else TopicName.parse(topic)
    rate_limiter = RateLimiter(None if max_mib is None else max_mib * MIB)
    findings = context.run(_check(context, ledger_ids, name, not references_only, rate_limiter, min_age * 1000))
    _show(context.output, findings)
    return findings.exit_code


async def _check(
    context: CommandContext,
    ledger_ids: Sequence[int],
    name: TopicName | None,
    entries: bool,
    rate_limiter: RateLimiter,
    min_age_ms: int,
) -> Findings:
    async with read_only_cluster(context.url) as cluster:
        audit, references_read = await _audit(context.output, cluster, ledger_ids, name, min_age_ms)
        findings = Findings(audit, entries, references_read)
        for each in audit.listed:
            findings.of[each.origin.ledger_id] = each.origin.of
        if entries:
            cluster.bookies.on_bad_replica = None
            await _read_entries(context.output, cluster, findings, rate_limiter)
        return findings


async def _audit(
    output: Output, cluster: ReadOnlyCluster, ledger_ids: Sequence[int], name: TopicName | None, min_age_ms: int
) -> tuple[ReferenceAudit, bool]:
    """The ledgers to read with the findings on references, and whether references were read."""
    auditor = LedgerAuditor(cluster.metadata, cluster.bookies)
    unreadable: list[UnreadableRecord] = []
    if ledger_ids:
        wanted = sorted(set(ledger_ids))
        listed = await read_origins(cluster.metadata, wanted, unreadable)
        missing = set(wanted) - {each.origin.ledger_id for each in listed}
        if missing:
            raise NoSuchLedger(f"there is no ledger {', '.join(map(str, sorted(missing)))}: nothing was read")
        return _only(listed, unreadable), False
    if name is None:
        with output.progress("reading", "ledgers and topics") as progress:
            task = progress.add_task("", total=None)
            now_ms = wall_clock_ms()
            return await auditor.audit(now_ms, min_age_ms, lambda _, count: progress.advance(task, count)), True
    references = References()
    for managed_ledger in (await find_targets(cluster, name)).managed_ledgers:
        found = await auditor.references_of(managed_ledger)
        references.found += found.found
        unreadable += found.unreadable
    listed = await read_origins(cluster.metadata, sorted(references.ledgers), unreadable)
    dangling = find_dangling(references.found, {each.origin.ledger_id for each in listed})
    return _only(listed, unreadable, await auditor.confirm_dangling(dangling)), True


def _only(
    listed: Sequence[ListedLedger], unreadable: Sequence[UnreadableRecord], dangling: tuple[Reference, ...] = ()
) -> ReferenceAudit:
    return ReferenceAudit(tuple(listed), (), (), (), (), (), dangling, tuple(unreadable))


async def _read_entries(
    output: Output, cluster: ReadOnlyCluster, findings: Findings, rate_limiter: RateLimiter
) -> None:
    """Read the copies of all listed ledgers, some of them concurrently."""
    waiting = deque(each.origin.ledger_id for each in findings.audit.listed)
    with output.progress("reading", "copies") as progress:
        task = progress.add_task("", total=sum(each.copies for each in findings.audit.listed))

        async def work() -> None:
            while waiting:
                ledger_id = waiting.popleft()
                try:
                    findings.note(
                        await cluster.bookies.check_ledger(
                            ledger_id, rate_limiter, lambda copies, _: progress.advance(task, copies)
                        )
                    )
                except NoSuchLedger:
                    continue  # deleted since it was listed
                except RecordError:
                    continue  # already among the unreadable ones
                except BookieError as error:
                    findings.failed.append((ledger_id, str(error), isinstance(error, BookieUnavailable)))

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    findings.checks.sort(key=lambda check: check.ledger_id)
    findings.failed.sort()


def _show(output: Output, findings: Findings) -> None:
    facts = fields(
        ledgers=len(findings.audit.listed),
        checked=findings.checked,
        entries=findings.entries,
        whole_copies=findings.whole,
        size=findings.size,
        entries_read=findings.entries_read,
        references_read=findings.references_read,
        found=findings.exit_code == FAILED,
    )
    output.record(OutputRecord(facts, (*_entry_tables(findings), *_reference_tables(findings, output.for_programs))))
    output.line("\n" + _verdict(findings))


def _verdict(findings: Findings) -> str:
    if findings.exit_code == FAILED:
        return "something is wrong: see above"
    return "nothing is wrong" + (", as far as could be seen" if findings.exit_code == UNAVAILABLE else "")


def _entry_tables(findings: Findings) -> tuple[OutputTable, ...]:
    def copies(key: str, runs: list[tuple[int, CopyRun]]) -> OutputTable:
        rows = [
            (ledger, findings.of.get(ledger, ""), run.bookie_id, run.first, run.last, run.count, run.reason)
            for ledger, run in runs
        ]
        return OutputTable(key, COPY_COLUMNS, tuple(rows))

    def entries(key: str, runs: list[tuple[int, ReplicaRun]]) -> OutputTable:
        rows = [(ledger, findings.of.get(ledger, ""), str(run), len(run)) for ledger, run in runs]
        return OutputTable(key, ENTRY_COLUMNS, tuple(rows))

    checks = findings.checks
    open_rows = [
        (
            check.ledger_id,
            findings.of.get(check.ledger_id, ""),
            check.state.name,
            check.entries - 1,
            sum(run.count for run in check.behind),
        )
        for check in checks
        if not check.closed
    ]
    return (
        entries("lost", [(check.ledger_id, run) for check in checks for run in check.lost]),
        copies("bad_copies", [(check.ledger_id, run) for check in checks for run in check.bad]),
        entries("unreachable", [(check.ledger_id, run) for check in checks for run in check.unreachable]),
        copies("away", [(check.ledger_id, run) for check in checks for run in check.away]),
        OutputTable(
            "not_checked",
            columns("ledger_id", "of", "away", "reason"),
            tuple((ledger, findings.of.get(ledger, ""), away, reason) for ledger, reason, away in findings.failed),
        ),
        OutputTable(
            "open_ledgers",
            columns("ledger_id", "of", "state", "last_add_confirmed", "copies_behind"),
            tuple(open_rows),
        ),
    )


def _reference_tables(findings: Findings, as_json: bool) -> tuple[OutputTable, ...]:
    audit = findings.audit
    unnamed: list[tuple[Value, ...]] = []
    states = (
        ("orphan", [(each, "") for each in audit.orphans]),
        ("unlisted", [(each.origin, each.reason) for each in audit.unlisted]),
        ("young", [(each, "") for each in audit.young]),
        ("undecided", [(each.origin, each.reason) for each in audit.undecided]),
    )
    for state, found in states:
        unnamed += [
            (each.ledger_id, each.component, each.managed_ledger, each.cursor, each.created_ms, state, reason)
            for each, reason in found
        ]
    others: tuple[tuple[Value, ...], ...]
    if as_json:
        other_columns = columns("ledger_id", "component")
        others = tuple((each.ledger_id, each.component) for each in audit.other)
    else:
        other_columns = (OutputColumn("component"), OutputColumn("ledgers"))
        counts = Counter(each.component or "unknown" for each in audit.other)
        others = tuple(sorted(counts.items()))
    return (
        OutputTable("unnamed", ORIGIN_COLUMNS, tuple(unnamed)),
        OutputTable(
            "dangling",
            columns("ledger_id", "named_as", "by"),
            tuple((each.ledger_id, each.naming.value, each.path) for each in audit.dangling),
        ),
        OutputTable(
            "unreadable", columns("path", "reason"), tuple((each.path, each.reason) for each in audit.unreadable)
        ),
        OutputTable("other_ledgers", other_columns, others),
    )
