"""One owner of very many topics: creates them and closes cleanly, or opens them, measures, and waits to be killed.

A separate process, run by `bench.topics`; prints one JSON object. Cursors are idle in the middle of their topic, with
their state in their znode. `--bare` topics have no cursor, to measure the memory of a topic without that of cursors.
"""

import argparse
import asyncio
import ctypes
import gc
import json
import os
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import uvloop

import mledger
from bench.rig.cluster import SWITCH_INTERVAL_S, cpu_seconds, peak_memory_mib
from bench.workload.topic import CONFIG

AT_ONCE = 200
ENTRIES = [b"entry %d" % number for number in range(4)]
ACKNOWLEDGED = 2


def topic_names(kind: str, count: int) -> list[str]:
    """What the topics are called."""
    return [f"persistent://bench/{kind}/topic-{number:05}" for number in range(count)]


def cursor_names(count: int) -> list[str]:
    """What the cursors of each topic are called."""
    return [f"cursor-{number}" for number in range(count)]


def memory_kib() -> float:
    """Memory that the process holds now, after it gave back what it can."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


async def each(names: Iterable[str], work: Callable[[str], Awaitable[None]]) -> None:
    """Do `work` for all names, a bounded number at once."""
    waiting = deque(names)

    async def worker() -> None:
        while waiting:
            await work(waiting.popleft())

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


async def make(cluster: mledger.Cluster, args: argparse.Namespace) -> dict[str, float]:
    """Create all topics and cursors, close cleanly; seconds."""

    async def bare(name: str) -> None:
        await (await cluster.create_topic(name)).append(ENTRIES)

    async def with_cursors(name: str) -> None:
        topic = await cluster.create_topic(name)
        (where,) = await topic.append(ENTRIES)
        mark = mledger.Position(where.ledger_id, where.first_entry + ACKNOWLEDGED - 1)
        await asyncio.gather(*(topic.open_cursor(cursor, initial=mark) for cursor in cursor_names(args.cursors)))

    start = time.perf_counter()
    await each(topic_names("bare", args.bare), bare)
    await each(topic_names("many", args.topics), with_cursors)
    made = time.perf_counter() - start
    start = time.perf_counter()
    await cluster.close()
    return {"made_s": made, "closed_s": time.perf_counter() - start}


class WrongTopic(Exception):
    """A topic or cursor is not as it was."""


async def reopen(cluster: mledger.Cluster, args: argparse.Namespace) -> dict[str, float]:
    """Open all topics; how long, what CPU, and what they take."""
    await cluster.topics("bench/none")  # the session and the code are there before
    before = memory_kib()
    await opened(cluster, "bare", args.bare, [])
    bare = memory_kib()
    cpu, start = cpu_seconds(os.getpid()), time.perf_counter()
    await opened(cluster, "many", args.topics, cursor_names(args.cursors))
    took, cpu = time.perf_counter() - start, cpu_seconds(os.getpid()) - cpu
    tasks = len(asyncio.all_tasks()) - 1
    per_topic = (bare - before) / args.bare
    per_cursor = ((memory_kib() - bare) / args.topics - per_topic) / args.cursors
    return {
        "opened_s": took,
        "cpu_ms_per_topic": 1000 * cpu / args.topics,
        "topic_kib": per_topic,
        "cursor_kib": per_cursor,
        "peak_mib": peak_memory_mib(os.getpid()),
        "tasks": tasks,
    }


async def opened(cluster: mledger.Cluster, kind: str, count: int, cursors: list[str]) -> None:
    """Open the topics; every cursor recovered, with the backlog it had."""
    found = await cluster.open_topics(topic_names(kind, count), take_over=True)
    if found.failed:
        name, error = next(iter(found.failed.items()))
        raise WrongTopic(f"{len(found.failed)} topics were not opened; {name}: {error}")
    for name, topic in found.topics.items():
        backlogs = {cursor.name: cursor.backlog for cursor in topic.open_cursors.values()}
        if backlogs != dict.fromkeys(cursors, len(ENTRIES) - ACKNOWLEDGED):
            raise WrongTopic(f"{name} has cursors with backlogs {backlogs}")
        if topic.number_of_entries != len(ENTRIES):
            raise WrongTopic(f"{name} has {topic.number_of_entries} entries")


async def own(args: argparse.Namespace) -> None:
    """Run one part and print its figures; an owner that is to be killed then waits."""
    async with mledger.open_cluster(args.metadata, config=CONFIG) as cluster:
        if args.make:
            print(json.dumps(await make(cluster, args)), flush=True)
            return
        print(json.dumps(await reopen(cluster, args)), flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Own topics."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--metadata", required=True)
    parser.add_argument("--make", action="store_true", help="make the topics instead of opening them")
    parser.add_argument("--topics", type=int, required=True)
    parser.add_argument("--cursors", type=int, required=True, help="of each topic")
    parser.add_argument("--bare", type=int, required=True, help="topics without cursors")
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    uvloop.run(own(parser.parse_args()))


if __name__ == "__main__":
    main()
