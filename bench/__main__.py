"""Runs every benchmark and writes `docs/reference/benchmarks.md`: `python -m bench [--seconds 2 --pairs 1]`."""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.rig.cluster import ROOT

BENCHES = (
    "append",
    "read",
    "recover",
    "topics",
    "brokers",
    "standalones",
    "takeover",
    "crowd",
    "snapshot",
    "since",
    "exporter",
    "start",
)
HEADER = """# Benchmarks

Written by `make bench`: real processes on one machine, sync on. Ratio is ours over the peer's, the median of
alternating pairs; spread is their lowest and highest ratio. If the unit is a time or a size, less is better.

- `append`: through `ManagedLedger` with its defaults, E=3 Wq=3 Aq=2, batches of at most 500 distinct payloads; one
  cursor acknowledges, every entry is read back and compared. The ceiling (`bench/ceiling.py`) is the bare work: frames,
  digests, journal, RocksDB, sockets; no metadata, no last-add-confirmed, no recovery, no error handling.
- `read`: a process that has written nothing reads the topic with a new cursor and compares every entry.
- `recover`: the owner is killed with -9; another process opens the topic, appends, and recovers every cursor.
- `topics`: one process owns very many idle topics; another opens them after a clean close and after kill -9, and
  recovers and checks the cursors of each. Then concurrent appends to a thousand ledgers, compared with the same batches
  on one ledger.
- `brokers`: the official Go client on our broker, on a minimal one that does nothing but what lies between a client and
  `ManagedLedger` (`bench/processes/minimal_broker.py`), and on Java Pulsar's standalone with one bookie in the same
  process, where Maven supplies it. The load runs on the same processors. Every receipt is synced by the bookies. Ten
  subscriptions have a client each and get every message: what all receive together counts.
- `standalones`: what a test suite sees of `mledger standalone --ephemeral`, of one whose data is kept ("synced"), of
  Java Pulsar's standalone and of the package pulsar-lite, where they are installed: start, memory, a hundred small
  tests by the official Python client, and what the official Go client publishes. Ours with its data kept syncs before
  each answer, and Java's syncs its journal; ours, being ephemeral, and pulsar-lite sync nothing.
- `takeover`: a broker is killed with -9. From when its session has ended, clients look all its topics up at another
  broker at once, subscribe and produce: until each topic has delivered its first message and stored a new one.
- `crowd`: one broker with 1,000 connections, 10,000 topics and as many subscriptions: opened, idle, under an even load,
  and under the same load beside a consumer that takes nothing, and beside a producer that publishes as fast as it can.
- `snapshot`: `mledger snapshot export` of a synthetic cluster of 100,000 topics, 300,000 cursors and 500,000 ledgers,
  as users run it: from ZooKeeper's files (a snapshot of a million znodes), the same with `--spark`, and from a running
  ZooKeeper on the same two cores that was started on that file. Every table is written; what does not decode is a row
  of `errors`. Memory is that of all processes together, without the server. Processes that each do one thing more
  measure the CPU of the parts. A writer sets nodes, four at a time, each durable when acknowledged, alone and while an
  export reads at a limited rate.
- `since`: `mledger snapshot export --since` on ZooKeeper's files of 200,000 znodes, of which a log changed one in a
  hundred at random, and a full export of the same point, by turns: the seconds that the command tells, and the CPU of
  its processes from start to end.
- `exporter`: `mledger exporter` with its defaults on the metadata of 100,000 topics with a cursor each and 250,000
  ledgers, in a running ZooKeeper on the same two cores; it is scraped twice a second.
- `start`: processor time of commands that inspect a small cluster, compared with a Python that does nothing, and one
  that imports click.
"""


def machine() -> list[str]:
    """The machine of the measurements."""
    model = next((line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if "model name" in line), "unknown")
    total = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return [
        f"{os.cpu_count()} cores, {model}; {total >> 20} GiB of memory",
        f"{platform.system()} {platform.release().partition('-')[0]}, Python {platform.python_version()}",
    ]


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if os.path.exists(path) else []


def run_bench(name: str, options: list[str]) -> list[dict[str, Any]]:
    """Run one benchmark, printing its lines as they come."""
    results = []
    command = [sys.executable, "-m", f"bench.{name}", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            results.append(json.loads(line))
    if process.returncode:
        raise SystemExit(f"bench: {name} failed with exit code {process.returncode} after {len(results)} results")
    return results


def table(results: Iterable[dict[str, Any]]) -> str:
    """The results as Markdown."""
    rows = [
        "| bench | case | value | unit | peer | peer value | ratio | spread |",
        "|---|---|---:|---|---|---:|---:|---|",
    ]
    for result in results:
        spread = " to ".join(map(_figure, result["spread"])) if result["spread"] else ""
        cells = (
            *(result["bench"], result["case"], _figure(result["value"]), result["unit"]),
            *(result["peer"] or "", _figure(result["peer_value"]), _figure(result["ratio"]), spread),
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,}"


def main() -> None:
    """Run all, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "reference/benchmarks.md")
    args = parser.parse_args()
    described = [f"- {datetime.now(UTC):%Y-%m-%d}", *(f"- {line}" for line in machine())]
    described.append(f"- {args.pairs} pairs of {args.seconds:g} s each")
    load = os.getloadavg()[0]
    options = ["--seconds", str(args.seconds), "--pairs", str(args.pairs)]
    results = [result for name in BENCHES for result in run_bench(name, options)]
    described.append(
        f"- load before and after the run: {load:.1f}, {os.getloadavg()[0]:.1f} (a quiet run ends at 2 to 4)"
    )
    args.output.write_text("\n".join([HEADER, *described, "", table(results), ""]))


if __name__ == "__main__":
    main()
