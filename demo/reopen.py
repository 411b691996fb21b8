"""The process that opens the topic after the kill: recovery, read-back, recount, trim.

Run as `python -m demo.reopen URL REPORT`; REPORT is the owner's last report, as JSON. Exits 1 if anything differs.
"""

import asyncio
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

import mledger
from demo import flights
from demo.recount import deleted_rows, recount
from demo.rowmap import RowMap
from demo.subscriptions import CONFIG, SUBSCRIPTIONS, TOPIC, TRIMMING

READ_ENTRIES = 2000
READ_BYTES = 4 << 20
DIFFERENCES_SHOWN = 5

console = Console(highlight=False)


class EventPrinter:
    """Prints events as they happen, with the time since the start."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def __call__(self, event: mledger.events.Event) -> None:
        """Print one event."""
        at_ms = (time.perf_counter() - self._start) * 1000
        console.print(f"  {at_ms:7.0f} ms  {event.describe()}", markup=False, soft_wrap=True)


def main() -> None:
    """Entry point."""
    logging.getLogger().addHandler(logging.NullHandler())  # the timeline shows the same events
    sys.exit(asyncio.run(reopen(sys.argv[1], json.loads(Path(sys.argv[2]).read_text()))))


async def reopen(url: str, report: dict[str, Any]) -> int:
    """Open, verify, trim; returns the exit code. `report` is the owner's last."""
    published = RowMap(mledger.AppendedRange(*each) for each in report["ranges"])
    async with mledger.open_cluster(url) as cluster:
        console.print("\n[bold]Recovery in a new process[/bold]")
        topic = await cluster.open_topic(TOPIC, config=CONFIG, take_over=True, events=EventPrinter())
        await topic.initialized()
        cursors = {each.name: await topic.open_cursor(each.name) for each in SUBSCRIPTIONS}
        show_cursors(cursors, {each["cursor"]: each for each in report["dry_run"]})
        console.print("\n[bold]Read back and recounted[/bold]")
        differences = await read_back(topic, published)
        differences += recount_all(cursors, published)
        differences += await redelivered(cursors)
        await topic.close()
        for difference in differences[:DIFFERENCES_SHOWN]:
            console.print(f"  [red]different:[/red] {difference}", soft_wrap=True)
        if differences:
            console.print(f"[red]{len(differences)} differences[/red]")
            return 1
        console.print("\n[bold]Trim the consumed ledgers[/bold]")
        topic = await cluster.open_topic(TOPIC, config=TRIMMING, events=EventPrinter())
        await topic.initialized()
        await topic.close()
    return 0


def show_cursors(cursors: dict[str, mledger.Cursor], dry_run: dict[str, dict[str, object]]) -> None:
    """Print the table of cursors: what the dry run predicted, and what opening did."""
    table = Table(box=None, padding=(0, 2, 0, 2), header_style="bold")
    table.add_column("cursor", no_wrap=True)
    for heading in ("found in", "rule"):
        table.add_column(heading)
    for heading in ("position", "holes", "backlog"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in SUBSCRIPTIONS:
        cursor, before = cursors[each.name], dry_run[each.name]
        rules = before["rules"]
        assert isinstance(rules, list)
        table.add_row(
            each.name,
            str(before["found_in"]),
            " ".join(map(str, rules)),
            str(cursor.mark_delete),
            f"{len(cursor.holes):,}",
            f"{cursor.backlog:,}",
        )
    console.print("\n[bold]Cursors[/bold]")
    console.print(table)


async def read_back(topic: mledger.ManagedLedger, published: RowMap) -> list[str]:
    """Read every entry of the topic and compare it with its source row; returns the differences."""
    differences = []
    expected = published.positions()
    source = flights.rows()
    row = 0
    with progress() as bar:
        task = bar.add_task("reading", total=flights.ROWS)
        position = mledger.Position(-1, -1)
        while entries := await topic.read(position, READ_ENTRIES, READ_BYTES):
            for entry in entries:
                if entry.position != next(expected, None) or flights.decode(entry.payload) != next(source, None):
                    differences.append(f"the entry at {entry.position} is not row {row}")
                row += 1
            position = mledger.Position(entries[-1].position.ledger_id, entries[-1].position.entry_id + 1)
            bar.update(task, completed=row)
    if row != flights.ROWS:
        differences.append(f"{row:,} entries, {flights.ROWS:,} rows")
    if not differences:
        console.print(
            f"  {row:,} entries read: each equals its source row and has the position that its publisher got",
            soft_wrap=True,
        )
    return differences


def recount_all(cursors: dict[str, mledger.Cursor], published: RowMap) -> list[str]:
    """Count each backlog entry by entry from the cursor's position and holes; returns the differences."""
    positions = list(published.positions())
    differences = []
    for subscription in SUBSCRIPTIONS:
        cursor = cursors[subscription.name]
        deleted = deleted_rows(positions, cursor.mark_delete, cursor.holes)
        found = recount(subscription, deleted, cursor.backlog)
        differences += [f"{subscription.name}: {each}" for each in found.differences]
        if not found.differences:
            console.print(f"  {subscription.name}: counted a backlog of {found.backlog:,}, as the cursor says")
    return differences


async def redelivered(cursors: dict[str, mledger.Cursor]) -> list[str]:
    """Read each subscription to its end; each must get exactly its backlog. Returns the differences."""
    differences = []
    for name, cursor in cursors.items():
        got = 0
        while entries := await cursor.read(READ_ENTRIES, READ_BYTES):
            got += len(entries)
        if got != cursor.backlog:
            differences.append(f"{name}: {got:,} entries delivered, backlog {cursor.backlog:,}")
    if not differences:
        console.print("  every subscription received exactly its backlog")
    return differences


def progress() -> Progress:
    """A progress bar that leaves nothing behind."""
    return Progress(
        TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), console=console, transient=True
    )


if __name__ == "__main__":
    main()
