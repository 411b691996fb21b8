"""Reads a whole topic from the bookies with a new cursor and compares every entry; prints one JSON object.

A separate process that has written nothing, so it has no cache.
"""

import argparse
import itertools
import json
import os
import sys
import time

import uvloop

import mledger
from bench.rig.cluster import SWITCH_INTERVAL_S, cpu_seconds, peak_memory_mib
from bench.workload.payloads import pool
from bench.workload.topic import CONFIG, NAME, READ_BYTES, READ_ENTRIES, WrongEntry


async def catch_up(cursor: mledger.Cursor, payloads: list[bytes]) -> int:
    """Read to the end of the topic as a dispatcher would; how many entries there were."""
    expected = itertools.cycle(payloads)
    seen = 0
    while entries := await cursor.read(READ_ENTRIES, READ_BYTES):
        for entry in entries:
            if entry.payload != next(expected):
                raise WrongEntry(f"entry {seen} at {entry.position} differs from what was appended there")
        seen += len(entries)
    return seen


async def read(args: argparse.Namespace) -> dict[str, float]:
    """Open the topic, read, measure."""
    payloads = pool(args.payloads)
    pids = [os.getpid(), *args.bookies]
    async with mledger.open_cluster(args.metadata) as cluster:
        ledger = await cluster.open_topic(NAME, config=CONFIG)
        cursor = await ledger.open_cursor(f"reader-{os.getpid()}", initial="earliest")
        before, start = sum(map(cpu_seconds, pids)), time.perf_counter()
        seen = await catch_up(cursor, payloads)
        elapsed, cpu = time.perf_counter() - start, sum(map(cpu_seconds, pids)) - before
        if seen != ledger.number_of_entries:
            raise WrongEntry(f"the topic has {ledger.number_of_entries} entries, the cursor gave {seen}")
        await ledger.close()
    return {
        "entries": seen,
        "entries_per_s": seen / elapsed,
        "cpu_us_per_entry": 1e6 * cpu / seen,
        "memory_mib": peak_memory_mib(os.getpid()),
    }


def main() -> None:
    """Read as the arguments say and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--metadata", required=True)
    parser.add_argument("--payloads", required=True, help="bytes, or flights")
    parser.add_argument("--bookies", type=int, nargs="*", default=[], help="process ids, for CPU time")
    args = parser.parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    print(json.dumps(uvloop.run(read(args))))


if __name__ == "__main__":
    main()
