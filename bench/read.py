"""Catch-up reads of 1 KiB entries by a process without a cache, compared with the append ceiling (`ceiling.py`).

The topic is written first. Then the bookies are restarted, and each pair reads all of it and runs the ceiling in turn.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file, too

from bench.rig.cluster import BenchCluster, peak_memory_mib, require_disk, run
from bench.rig.report import emit, emit_pairs

SIZE = 1024
WINDOW = 4000
ENTRIES_PER_SECOND = 150_000  # how many entries make a run of about a second
MEMORY_LIMIT_MIB = 300
COPIES = 3 * 2


def main() -> None:
    """Write, read, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="about as long as this each run")
    parser.add_argument("--pairs", type=int, default=5)
    args = parser.parse_args()
    entries = int(args.seconds * ENTRIES_PER_SECOND)
    require_disk(2 * entries * SIZE * COPIES)
    own, ceiling = [], []
    with BenchCluster() as cluster:
        of_topic = ("--metadata", cluster.url, "--payloads", SIZE)
        run("bench.processes.writer", *of_topic, "--window", WINDOW, "--entries", entries)
        for bookie in cluster.bookies:
            bookie.stop()
            bookie.start()
        for _ in range(args.pairs):
            own.append(run("bench.processes.reader", *of_topic, "--bookies", *cluster.pids))
            ceiling.append(run("bench.ceiling", "--size", SIZE, "--window", WINDOW, "--seconds", args.seconds))
        bookie_memory = max(map(peak_memory_mib, cluster.pids))
    for name, key, unit in (
        ("catch-up, 1 KiB", "entries_per_s", "entries/s"),
        ("catch-up, 1 KiB: CPU of reader and bookies", "cpu_us_per_entry", "µs/entry"),
    ):
        mine, theirs = [figures[key] for figures in own], [figures[key] for figures in ceiling]
        emit_pairs("read", name, mine, theirs, unit, "append ceiling")
    reader_memory = max(figures["memory_mib"] for figures in own)
    for of, memory in (("reader", reader_memory), ("bookie", bookie_memory)):
        case = f"catch-up, 1 KiB: peak memory of a {of}"
        emit("read", case, memory, "MiB", peer="limit", peer_value=MEMORY_LIMIT_MIB)


if __name__ == "__main__":
    main()
