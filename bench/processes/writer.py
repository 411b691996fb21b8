"""Appends to a topic for some seconds while one cursor acknowledges, then reads everything back and compares it.

A separate process, run by the benchmarks; prints one JSON object.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time

import uvloop

import mledger
from bench.rig.cluster import SWITCH_INTERVAL_S, cpu_seconds, peak_memory_mib
from bench.workload.payloads import pool
from bench.workload.topic import CONFIG, NAME, AppendLoad, verify


async def acknowledge_behind(cursor: mledger.Cursor, load: AppendLoad) -> None:
    """Mark-delete what is acknowledged to the writer, again as soon as the last mark is durable."""
    done = None
    while True:
        if load.last is None or load.last == done:
            await asyncio.sleep(0.01)
            continue
        done = load.last
        await cursor.acknowledge_cumulative(done)


async def write(args: argparse.Namespace) -> dict[str, float]:
    """Open the topic, append, measure, verify, close."""
    payloads = pool(args.payloads)
    pids = [os.getpid(), *args.bookies]
    async with mledger.open_cluster(args.metadata) as cluster:
        ledger = await cluster.create_topic(NAME, config=CONFIG)
        load = AppendLoad(ledger, payloads, args.window)
        cursor = await ledger.open_cursor("behind", initial="earliest")
        acknowledging = asyncio.create_task(acknowledge_behind(cursor, load))
        before = sum(map(cpu_seconds, pids))
        elapsed = await (load.entries(args.entries) if args.entries else load.for_seconds(args.seconds))
        cpu = sum(map(cpu_seconds, pids)) - before
        acknowledging.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await acknowledging
        memory = peak_memory_mib(os.getpid())
        start = time.perf_counter()
        verified = await verify(ledger, payloads, load.appended)
        reading = time.perf_counter() - start
        await ledger.close()
    delays = sorted(load.delays)
    return {
        "entries": verified,
        "entries_per_s": load.appended / elapsed,
        "cpu_us_per_entry": 1e6 * cpu / load.appended,
        "p50_ms": 1e3 * delays[len(delays) // 2],
        "p99_ms": 1e3 * delays[len(delays) * 99 // 100],
        "mean_size": sum(map(len, payloads)) / len(payloads),
        "memory_mib": memory,
        "read_back_per_s": verified / reading,
    }


def main() -> None:
    """Write as the arguments say and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--metadata", required=True)
    parser.add_argument("--payloads", required=True, help="bytes, or flights")
    parser.add_argument("--window", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--entries", type=int, default=0, help="append so many instead of for --seconds")
    parser.add_argument("--bookies", type=int, nargs="*", default=[], help="process ids, for CPU time")
    args = parser.parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    print(json.dumps(uvloop.run(write(args))))


if __name__ == "__main__":
    main()
