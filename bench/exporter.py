"""`mledger exporter` on the metadata of a large synthetic cluster: how long a round takes at its default rate, in which
memory, how soon a scrape is answered while a round is under way, and how much a writer beside it loses.

The nodes are written as a snapshot file, and a real ZooKeeper is started on it.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file, too

from prometheus_client.parser import text_string_to_metric_families

from bench.rig.cluster import ROOT, cpu_seconds, peak_memory_mib, require_disk, run
from bench.rig.report import emit
from bench.rig.znode_writer import emit_beside
from bench.workload.zookeeper_tree import add_sizes, start_server

TOPICS = 100_000
LEDGERS = 250_000
ROUND_LIMIT_S = 60.0
MEMORY_LIMIT_MIB = 200.0
LONGEST_S = 600.0
DISK_BYTES = 3 << 30
ASK_EVERY_S = 0.5


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
def running_exporter(url: str, options: list[str]) -> Iterator[tuple[str, int]]:
    """An exporter that begins each round one second after the last; its URL and process id."""
    command = [sys.executable, "-m", "mledger.cli.main", "--metadata", url, "exporter", "--port", "0"]
    command += ["--interval", "1", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as exporter:
        try:
            assert exporter.stdout is not None
            line = exporter.stdout.readline()
            if not line:
                raise RuntimeError(f"the exporter ended with {exporter.wait()}")
            yield json.loads(line)["url"], exporter.pid
        finally:
            exporter.terminate()


def measure(url: str, what: str, rounds: int, options: list[str]) -> None:
    """Run an exporter for so many rounds, and scrape it meanwhile."""
    with running_exporter(url, options) as (metrics, pid):
        report(metrics, what, pid, rounds)


def report(url: str, what: str, pid: int, rounds: int) -> None:
    """Wait until the rounds are done; print the figures."""
    until = time.monotonic() + LONGEST_S
    took, slowest, done = [], 0.0, 0
    while done < rounds:
        if time.monotonic() > until:
            raise RuntimeError(f"{rounds} rounds were not done within {LONGEST_S:g} s")
        began = time.perf_counter()
        found, size = scrape(url)
        slowest = max(slowest, time.perf_counter() - began)
        if found["mledger_exporter_rounds_total"] > done:
            done = int(found["mledger_exporter_rounds_total"])
            took.append(found["mledger_exporter_round_seconds"])
        time.sleep(ASK_EVERY_S)
    emit("exporter", f"{what}: a round", max(took), "s", peer="limit", peer_value=ROUND_LIMIT_S)
    memory = peak_memory_mib(pid)
    emit("exporter", f"{what}: peak memory", memory, "MiB", peer="limit", peer_value=MEMORY_LIMIT_MIB)
    emit("exporter", f"{what}: requests of a round", found["mledger_exporter_round_requests"], "znodes")
    emit("exporter", f"{what}: CPU of a round", cpu_seconds(pid) / done, "s")
    emit("exporter", f"{what}: the slowest scrape meanwhile", slowest * 1000, "ms")
    emit("exporter", f"{what}: text of a scrape", size / 1024, "KiB")


def main() -> None:
    """Run and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_sizes(parser)
    parser.set_defaults(topics=TOPICS, cursors=TOPICS, ledgers=LEDGERS)
    parser.add_argument("--pairs", type=int, default=2, help="how many rounds are read, and runs of a writer")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run of a writer")
    parser.add_argument("--rate", type=float, help="znodes per second  [default: the exporter's own]")
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
            measure(server.url, what, args.pairs, options)
            other = partial(running_exporter, server.url, options)
            emit_beside("exporter", "a writer beside it", server.url, args.pairs, args.seconds, other)


if __name__ == "__main__":
    main()
