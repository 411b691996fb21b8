"""Ten thousand topics in one process: opened after a clean close and after kill -9, idle, and written concurrently.

The limits are those of an operator: all topics open within a minute, and no task per topic. Concurrent appends to a
thousand ledgers are compared with the same batches on one ledger.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file, too

from bench.rig.cluster import ROOT, BenchCluster, require_disk, run
from bench.rig.report import emit, emit_pairs

OPEN_LIMIT_S = 60.0
DISK_BYTES = 4 << 30
LONGEST_S = 3.0  # of one run of appends: the topics themselves take most of the time
BATCHES = (1, 4)


def open_and_kill(arguments: list[str]) -> dict[str, float]:
    """Open all topics in a new process and kill it with -9 once it has measured."""
    command = [sys.executable, "-m", "bench.processes.topic_owner", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        line = owner.stdout.readline()
        owner.kill()
    if not line:
        raise RuntimeError("the owner ended before its topics were open")
    figures: dict[str, float] = json.loads(line)
    return figures


def many(cluster: BenchCluster, args: argparse.Namespace) -> None:
    """Make, open, kill, open again; print the figures."""
    arguments = ["--metadata", cluster.url, "--topics", str(args.topics), "--cursors", str(args.cursors)]
    arguments += ["--bare", str(args.bare)]
    what = f"{args.topics:,} topics, {args.topics * args.cursors:,} cursors"
    made = run("bench.processes.topic_owner", *arguments, "--make")
    emit("topics", f"{what}: made", made["made_s"], "s")
    emit("topics", f"{what}: closed cleanly", made["closed_s"], "s")
    for when in ("after a clean close", "after kill -9"):
        figures = open_and_kill(arguments)
        emit("topics", f"{what}: opened {when}", figures["opened_s"], "s", peer="limit", peer_value=OPEN_LIMIT_S)
        emit("topics", f"{what}: CPU of the owner, {when}", figures["cpu_ms_per_topic"], "ms/topic")
    emit("topics", "memory of an idle topic", figures["topic_kib"], "KiB")
    emit("topics", "memory of an idle cursor", figures["cursor_kib"], "KiB")
    emit("topics", f"{what}: peak memory of the owner", figures["peak_mib"], "MiB")
    emit("topics", f"{what}: tasks of the owner, idle", figures["tasks"], "tasks")


def spread(cluster: BenchCluster, args: argparse.Namespace) -> None:
    """Appends over many ledgers against one."""
    for batch in BATCHES:
        options = ["--ledgers", args.ledgers, "--batch", batch, "--pairs", args.pairs]
        seconds = min(args.seconds, LONGEST_S)
        rates = run("bench.processes.ledger_spread", "--metadata", cluster.url, *options, "--seconds", seconds)
        case = f"1 KiB, {args.ledgers:,} ledgers at once, batches of {batch}"
        emit_pairs("topics", case, rates["spread"], rates["one"], "entries/s", "one ledger, the same batches")


def main() -> None:
    """Run and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--cursors", type=int, default=3, help="of each topic")
    parser.add_argument("--bare", type=int, default=1000, help="further topics, without cursors")
    parser.add_argument("--ledgers", type=int, default=1000, help="written at once")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help=f"of each run of appends, at most {LONGEST_S:g}")
    args = parser.parse_args()
    require_disk(DISK_BYTES)
    with BenchCluster() as cluster:
        many(cluster, args)
    with BenchCluster() as cluster:
        spread(cluster, args)


if __name__ == "__main__":
    main()
