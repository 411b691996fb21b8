"""kill -9 of the broker, again and again under the load of the official clients."""

import shutil
import tempfile
from pathlib import Path

from tests.clients.broker_kills import BrokerKills, kill_brokers
from tests.clients.judged_broker import our_cluster
from tests.faults.soak.progress import Progress
from tests.faults.soak.report import Row


def run_broker(where: Path | None, *, kills: int) -> tuple[BrokerKills, float]:
    """Kill the broker so often. What happened, and how long it took, seconds."""
    progress = Progress("broker")
    directory = Path(tempfile.mkdtemp(prefix="mledger-soak-", dir=where))
    try:
        with our_cluster(directory / "cluster") as cluster:
            done = kill_brokers(
                cluster,
                kills,
                directory / "runs",
                on_kill=lambda so_far: progress.step(f"broker killed {so_far} of {kills} times"),
            )
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return done, progress.seconds


def broker_rows(done: BrokerKills, seconds: float) -> tuple[list[Row], list[str]]:
    """The figures of a run, and what does not hold."""
    bad = [f"{name}: {finding}" for name, findings in done.findings.items() for finding in findings]
    rows = [
        ("kill -9 of the broker, in a row under the load of six clients in three languages", f"{done.kills}", ""),
        ("… of these with a bookie down", f"{done.with_bookie_down}", ""),
        ("messages whose send was answered", f"{done.answered:,}", ""),
        ("… of these lost, altered or out of order", f"{len(bad)}", "0"),
        ("receipts compared with them", f"{done.received:,}", ""),
        ("answered acknowledgements, none of whose messages came again", f"{done.acknowledged:,}", "all"),
        ("longest time from a kill until every client had gone on by itself", f"{done.longest_pause_s:.1f} s", ""),
        ("time", f"{seconds:,.0f} s", ""),
    ]
    return rows, bad
