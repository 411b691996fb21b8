"""`mledger exporter` on the metadata of a large synthetic cluster: how long its first round takes at its default rate,
and later ones, in which memory, how soon a scrape is answered meanwhile, and how much a writer loses beside either.

The nodes are written as a snapshot file, and a real ZooKeeper is started on it. For the writer beside later rounds that
follow each other at once, one exporter is stopped and continued, so that its runs with and without it do the same. For
the writer beside rounds at the default interval, one run lasts some intervals: its mean rate is compared with that of
its median second, in which no round is read.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file, too

from prometheus_client.parser import text_string_to_metric_families

from bench.rig.cluster import ROOT, cpu_seconds, peak_memory_mib, require_disk, run
from bench.rig.report import emit
from bench.rig.znode_writer import emit_beside, emit_mean_beside_median
from bench.workload.zookeeper_tree import add_sizes, start_server
from mledger.exporter.options import DEFAULT_INTERVAL_S

TOPICS = 100_000
LEDGERS = 250_000
ROUND_LIMIT_S = 60.0
MEMORY_LIMIT_MIB = 200.0
LONGEST_S = 600.0
SESSION_S = 40.0
"""The longest that ZooKeeper gives by default: an exporter is stopped for the length of a run of a writer."""
DISK_BYTES = 3 << 30
ASK_EVERY_S = 0.5
AT_ONCE_S = 1.0
"""The interval of rounds that follow each other at once."""
INTERVALS = 3
"""How many intervals a writer's run lasts."""


def scrape(url: str) -> tuple[dict[str, float], int]:
    """The metrics that have no labels but those summed here over their labels, by name; and the bytes of the text."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        body = answer.read()
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found, len(body)


@contextlib.contextmanager
def running_exporter(url: str, options: list[str], interval_s: float = AT_ONCE_S) -> Iterator[tuple[str, int]]:
    """An exporter that begins a round at such an interval; its URL and process id."""
    command = [sys.executable, "-m", "mledger.cli.main", "--metadata", url, "exporter", "--port", "0"]
    command += [
        "--interval",
        str(interval_s),
        "--timeout",
        str(LONGEST_S),
        "--session-timeout",
        str(SESSION_S),
        *options,
    ]
    with subprocess.Popen([*command, *options], cwd=ROOT, stdout=subprocess.PIPE, text=True) as exporter:
        try:
            assert exporter.stdout is not None
            line = exporter.stdout.readline()
            if not line:
                raise RuntimeError(f"the exporter ended with {exporter.wait()}")
            yield json.loads(line)["url"], exporter.pid
        finally:
            exporter.send_signal(signal.SIGCONT)
            exporter.terminate()


@contextlib.contextmanager
def continued(pid: int) -> Iterator[None]:
    """Let a stopped exporter go on for a while."""
    os.kill(pid, signal.SIGCONT)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGSTOP)


class ScrapedRounds(NamedTuple):
    """What scrapes have seen of some rounds; times in seconds."""

    longest: float
    requests: float
    slowest_scrape: float
    scraped_bytes: int


def wait_for(url: str, rounds: int, done: float | None = None) -> ScrapedRounds:
    """Scrape until so many further rounds are complete; those after the first `done`, if given, count already."""
    until = time.monotonic() + LONGEST_S
    took, slowest = [], 0.0
    if done is None:
        done = scrape(url)[0]["mledger_exporter_rounds_total"]
    last = done + rounds
    while done < last:
        if time.monotonic() > until:
            raise RuntimeError(f"{rounds} rounds were not done within {LONGEST_S:g} s")
        began = time.perf_counter()
        found, size = scrape(url)
        slowest = max(slowest, time.perf_counter() - began)
        if found["mledger_exporter_rounds_total"] > done:
            done = found["mledger_exporter_rounds_total"]
            took.append(found["mledger_exporter_round_seconds"])
        time.sleep(ASK_EVERY_S)
    return ScrapedRounds(max(took), found["mledger_exporter_round_requests"], slowest, size)


def report(what: str, rounds: ScrapedRounds, cpu_s: float) -> None:
    """Print the figures of some rounds, of which each took so much CPU."""
    emit("exporter", f"{what}: a round", rounds.longest, "s", peer="limit", peer_value=ROUND_LIMIT_S)
    emit("exporter", f"{what}: requests of a round", rounds.requests, "znodes")
    emit("exporter", f"{what}: CPU of a round", cpu_s, "s")
    emit("exporter", f"{what}: the slowest scrape meanwhile", rounds.slowest_scrape * 1000, "ms")


def measure(url: str, what: str, rounds: int, options: list[str], beside: Callable[[int], None]) -> None:
    """Run an exporter for its first round and so many later ones; then call `beside` with its process id, stopped."""
    with running_exporter(url, options) as (metrics, pid):
        first = wait_for(metrics, 1, done=0.0)
        before = cpu_seconds(pid)
        report(f"{what}, the first time", first, before)
        later = wait_for(metrics, rounds)
        report(f"{what}, later", later, (cpu_seconds(pid) - before) / rounds)
        memory = peak_memory_mib(pid)
        emit("exporter", f"{what}: peak memory", memory, "MiB", peer="limit", peer_value=MEMORY_LIMIT_MIB)
        emit("exporter", f"{what}: text of a scrape", later.scraped_bytes / 1024, "KiB")
        os.kill(pid, signal.SIGSTOP)
        beside(pid)


def measure_at_intervals(url: str, options: list[str], interval_s: float) -> None:
    """Run an exporter at such an interval, and a writer for some intervals after its first round."""
    with running_exporter(url, options, interval_s) as (metrics, _):
        wait_for(metrics, 1)
        case = f"a writer beside a round every {interval_s:g} s"
        emit_mean_beside_median("exporter", case, url, INTERVALS * interval_s)


def main() -> None:
    """Run and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_sizes(parser)
    parser.set_defaults(topics=TOPICS, cursors=TOPICS, ledgers=LEDGERS)
    parser.add_argument("--pairs", type=int, default=2, help="of runs of a writer")
    parser.add_argument("--rounds", type=int, default=5, help="later rounds that are read")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run of a writer, at most 15")
    parser.add_argument("--rate", type=float, help="znodes per second  [default: the exporter's own]")
    parser.add_argument(
        "--interval", type=float, default=DEFAULT_INTERVAL_S, help="of rounds that a writer has beside it"
    )
    args = parser.parse_args()
    require_disk(DISK_BYTES)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        directory = Path(name)
        files = directory / "files"
        sizes = [f"--{name}={getattr(args, name)}" for name in ("topics", "cursors", "ledgers")]
        made = run("bench.workload.zookeeper_tree", files, *sizes)
        with start_server(files, directory / "zookeeper", int(made["znodes"])) as server:
            what = f"{args.topics:,} topics, {args.cursors:,} cursors"
            options = [] if args.rate is None else ["--rate", str(args.rate)]

            def writer_beside(case: str, other: Callable[[], AbstractContextManager[object]]) -> None:
                emit_beside("exporter", f"a writer beside {case}", server.url, args.pairs, args.seconds, other)

            def beside_later(pid: int) -> None:
                writer_beside("later rounds", partial(continued, pid))

            measure(server.url, what, args.rounds, options, beside_later)
            measure_at_intervals(server.url, options, args.interval)
            writer_beside("a first round", partial(running_exporter, server.url, options))


if __name__ == "__main__":
    main()
