"""Appends through ManagedLedger to three bookies, compared with the bare cost of this on the machine (`ceiling.py`).

E=3 Wq=3 Aq=2, batches of at most 500 distinct payloads, one cursor that acknowledges behind; every entry is read back
and compared. Each pair runs ours and the ceiling in turn; the ratio is the median over the pairs.
"""

import argparse
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file, too

from bench.rig.cluster import BenchCluster, peak_memory_mib, require_disk, run
from bench.rig.report import emit, emit_pairs
from bench.workload.payloads import FLIGHTS

MEMORY_LIMIT_MIB = 300
LARGEST_RATE = 400e6  # payload bytes a second, more than has been seen
COPIES = 3 * 2  # bookies, and what compaction holds beside the live files


@dataclass(frozen=True, slots=True)
class AppendCase:
    """What is appended and how much of it is in flight."""

    name: str
    payloads: str
    window: int


CASES = (
    AppendCase("100 B, window 4000", "100", 4000),
    AppendCase("1 KiB, window 4000", "1024", 4000),
    AppendCase("64 KiB, window 200", "65536", 200),
    AppendCase("flights rows, window 4000", FLIGHTS, 4000),
    AppendCase("1 KiB, window 1", "1024", 1),
)


def ours(case: AppendCase, seconds: float) -> dict[str, Any]:
    """One run on a fresh cluster; with the bookies' memory."""
    with BenchCluster() as cluster:
        figures = run(
            "bench.processes.writer",
            *("--metadata", cluster.url, "--payloads", case.payloads, "--window", case.window),
            *("--seconds", seconds, "--bookies", *cluster.pids),
        )
        return figures | {"bookie_memory_mib": max(map(peak_memory_mib, cluster.pids))}


def measure(case: AppendCase, seconds: float, pairs: int) -> None:
    """Run the pairs of a case and print its results."""
    require_disk(int(LARGEST_RATE * seconds * COPIES))
    own, ceiling = [], []
    for _ in range(pairs):
        own.append(ours(case, seconds))
        ceiling.append(
            run("bench.ceiling", "--size", round(own[-1]["mean_size"]), "--window", case.window, "--seconds", seconds)
        )
    print_pairs(case, own, ceiling)
    for of, key in (("writer", "memory_mib"), ("bookie", "bookie_memory_mib")):
        most = max(figures[key] for figures in own)
        emit("append", f"{case.name}: peak memory of a {of}", most, "MiB", peer="limit", peer_value=MEMORY_LIMIT_MIB)


def print_pairs(case: AppendCase, own: list[dict[str, Any]], ceiling: list[dict[str, Any]]) -> None:
    """Rate and CPU; for one entry at a time the latency instead of the rate."""

    def pairs(name: str, key: str, unit: str) -> None:
        mine, theirs = [figures[key] for figures in own], [figures[key] for figures in ceiling]
        emit_pairs("append", name, mine, theirs, unit, "ceiling")

    if case.window == 1:
        pairs(f"{case.name}: median latency", "p50_ms", "ms")
    else:
        pairs(case.name, "entries_per_s", "entries/s")
        pairs(f"{case.name}: CPU of writer and bookies", "cpu_us_per_entry", "µs/entry")
    rates = [figures["read_back_per_s"] for figures in own]
    edges = (min(rates), max(rates))
    verified = sum(figures["entries"] for figures in own)
    emit(
        "append",
        f"{case.name}: read back and verified",
        statistics.median(rates),
        "entries/s",
        spread=edges,
        entries=verified,
    )


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    args = parser.parse_args()
    for case in CASES:
        if args.case in case.name:
            measure(case, args.seconds, args.pairs)


if __name__ == "__main__":
    main()
