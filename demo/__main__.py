"""`make demo`: publish a real table, kill the owner and a bookie, and show that every cursor comes back where it was.

Real ZooKeeper, four bookie processes, E=3, Wq=3, Aq=2. The last act has one process, `mledger standalone`, and Pulsar's
official client. Exits 1 if anything differs from what was published and acknowledged.
"""

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

import mledger
from demo import flights
from demo.broker import clients_of_a_standalone
from demo.directory import STANDALONE, DirectoryNotFree, claimed
from demo.machine import DemoCluster, DemoFailed, kill
from demo.subscriptions import EXPORT, SUBSCRIPTIONS, TOPIC

IN_FLIGHT = 1000
DIRECTORY = Path("mledger-data/demo")

console = Console(highlight=False)


@click.command()
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=DIRECTORY, show_default=True)
def main(directory: Path) -> None:
    """Run the demo."""
    start = time.perf_counter()
    machine = DemoCluster(directory)
    try:
        flights.table_path()
        with claimed(directory):
            try:
                code = demo(machine) or last_act(directory)
            finally:
                if machine.url:
                    machine.stop()
    except (DemoFailed, DirectoryNotFree, flights.FlightsMissing, mledger.MledgerError) as error:
        console.print(f"\n[bold red]demo failed:[/bold red] {escape(str(error))}", soft_wrap=True)
        sys.exit(1)
    seconds = time.perf_counter() - start
    if code == 0:
        console.print(f"\n[bold green]No entry lost or duplicated, every backlog correct.[/bold green] {seconds:.0f} s")
        try_next(directory)
    else:
        console.print(f"\n[bold red]The demo found a difference.[/bold red] {seconds:.0f} s")
    sys.exit(code)


def demo(machine: DemoCluster) -> int:
    """Run the steps; returns the exit code."""
    heading("A cluster on this machine")
    for process in machine.start():
        console.print(f"  {process['name']:<10} {process['address']:<16} pid {process['pid']}")

    heading(f"Publish {flights.ROWS:,} rows of the flights table to {TOPIC}, and acknowledge")
    owner = subprocess.Popen(
        [sys.executable, "-m", "demo.owner", machine.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    try:
        report = follow(owner)
        machine.show("topics", "describe", TOPIC)

        heading("Disaster")
        bookie = machine.writing_bookie(TOPIC)
        in_flight = wait_in_flight(owner)
    finally:
        owner.kill()
        owner.wait()
    console.print(
        f"  kill -9 {owner.pid}, the owner, with {in_flight:,} acknowledgements sent one by one without waiting"
    )
    kill(bookie.pid)
    console.print(f"  kill -9 {bookie.pid}, {bookie.name}, a bookie of the topic's current ensemble")
    ledger_id = machine.destroy_cursor_ledger(TOPIC, EXPORT)
    console.print(f"  deleted ledger {ledger_id}, the cursor ledger of {EXPORT}")

    heading("What a restart will do: mledger cursors recover (changes nothing)")
    machine.show("cursors", "recover", TOPIC)
    report["dry_run"] = machine.ask("cursors", "recover", TOPIC)
    path = machine.directory / "owner.json"
    path.write_text(json.dumps(report))
    return subprocess.run([sys.executable, "-m", "demo.reopen", machine.url, str(path)]).returncode


def last_act(directory: Path) -> int:
    """The broker, under the official client; returns the exit code."""
    heading("One process, without Java, and Pulsar's own client")
    differences = clients_of_a_standalone(directory / STANDALONE, console)
    for difference in differences:
        console.print(f"  [red]different:[/red] {difference}", soft_wrap=True)
    return 1 if differences else 0


def follow(owner: "subprocess.Popen[str]") -> dict[str, Any]:
    """Show the owner's progress until everything is published and acknowledged; returns its last report."""
    assert owner.stdout is not None
    started = time.perf_counter()
    columns = (TextColumn("  publishing"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=flights.ROWS)
        for line in owner.stdout:
            report: dict[str, Any] = json.loads(line)
            if "published" in report:
                seconds = time.perf_counter() - started
                console.print(f"  {flights.ROWS:,} entries published in {seconds:.1f} s, including reading the CSV")
                for each in SUBSCRIPTIONS:
                    console.print(f"  {each.name:<10} {each.what}")
                console.print()
                return report
            if "rows" in report:
                bar.update(task, completed=report["rows"])
    raise DemoFailed(f"the owner ended with exit code {owner.wait()}")


def wait_in_flight(owner: "subprocess.Popen[str]") -> int:
    """Let the owner acknowledge without waiting until it has done so often enough; returns how often."""
    assert owner.stdin is not None
    assert owner.stdout is not None
    owner.stdin.write("go on\n")
    for line in owner.stdout:
        sent: int = json.loads(line).get("in_flight", 0)
        if sent >= IN_FLIGHT:
            return sent
    raise DemoFailed(f"the owner ended with exit code {owner.wait()}")


def heading(text: str) -> None:
    """Print the heading of a step."""
    console.print(f"\n[bold]{text}[/bold]", soft_wrap=True)


def try_next(directory: Path) -> None:
    """Print what to try next with the data that the demo leaves."""
    console.print("\nThe data is still there. Try next:")
    directory_word, standalone_word = shlex.quote(str(directory)), shlex.quote(str(directory / STANDALONE))
    for line in (
        f"mledger up --dir {directory_word}",
        f"export MLEDGER_METADATA=$(.venv/bin/mledger status --dir {directory_word} --url)",
        f"mledger topics describe {TOPIC}",
        f"mledger topics read {TOPIC} --limit 3",
        f"mledger cursors describe {TOPIC} audit",
        "mledger metadata tree /managed-ledgers/public",
        f"mledger down --dir {directory_word}",
        f"mledger standalone --data-dir {standalone_word}",
    ):
        console.print(f"  .venv/bin/{line}" if line.startswith("mledger") else f"  {line}", soft_wrap=True)


if __name__ == "__main__":
    main()
