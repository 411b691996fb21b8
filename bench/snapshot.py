"""Exports all metadata of a large synthetic cluster: from ZooKeeper's files, from a running ZooKeeper, and with Spark.

A million znodes are written as a snapshot file, and a real ZooKeeper is started on it. Each export is the command that
users run, with its defaults, until its snapshot is published.
"""

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file, too

from bench.rig.cluster import ROOT, require_disk, run
from bench.rig.process_watch import Usage, watch
from bench.rig.report import emit, emit_pairs
from bench.rig.znode_writer import PARTS, emit_beside
from bench.workload.zookeeper_tree import add_sizes, start_server

FILES_LIMIT_S = 60.0
MEMORY_LIMIT_MIB = 2048.0
LIVE_TARGET = 40_000.0
DISK_BYTES = 3 << 30
RATE = 2_000
NODE_TABLES = (
    "topics",
    "cursors",
    "ledgers",
    "partitioned_topics",
    "underreplicated",
    "bookies",
    "tenants",
    "namespaces",
    "schemas",
    "brokers",
    "bundles",
)
"""Tables with a row for each node; what does not decode has one in `errors`."""


def export(metadata: str, to: Path, name: str, *options: str) -> tuple[Usage, int]:
    """The command's usage, and how many records it exported."""
    command = (
        "-m",
        "mledger.cli.main",
        "--metadata",
        metadata,
        "--output",
        "json",
        "snapshot",
        "export",
        str(to),
        "--name",
        name,
    )
    usage = watch((*command, *options))
    rows = {table["table"]: table["rows"] for table in json.loads(usage.output)["tables"]}
    shutil.rmtree(to)
    return usage, sum(rows[table] for table in (*NODE_TABLES, "errors"))


def from_files(metadata: str, to: Path, what: str) -> None:
    """Files to Parquet, without Spark; then where the CPU went, of one process."""
    usage, _ = export(metadata, to, "files")
    emit("snapshot", f"{what} in files to Parquet", usage.seconds, "s", peer="limit", peer_value=FILES_LIMIT_S)
    emit(
        "snapshot",
        "files to Parquet: peak memory of all processes",
        usage.peak_mib,
        "MiB",
        peer="limit",
        peer_value=MEMORY_LIMIT_MIB,
    )
    emit("snapshot", "files to Parquet: CPU of all processes", sum(usage.cpu.values()), "s")
    spent = [run(PARTS, part, "--metadata", metadata)["cpu_s"] for part in ("nodes", "records", "tables", "files")]
    for part, before, after in zip(
        ("reading", "decoding", "making Arrow batches", "writing Parquet"), [0.0, *spent], spent, strict=False
    ):
        emit(
            "snapshot",
            f"files to Parquet, one process: {part}",
            max(0.0, after - before),
            "s",
            peer="in all",
            peer_value=spent[-1],
        )


def with_spark(metadata: str, to: Path, what: str) -> None:
    """The same by Spark: how much of the CPU went into it, how much into Python workers."""
    usage, _ = export(metadata, to, "spark", "--spark")
    cpu = sum(usage.cpu.values())
    emit("snapshot", f"{what} in files to Parquet, Spark", usage.seconds, "s", peer="limit", peer_value=FILES_LIMIT_S)
    emit(
        "snapshot",
        "Spark: peak memory of Python workers and command",
        usage.memory["python"],
        "MiB",
        peer="limit",
        peer_value=MEMORY_LIMIT_MIB,
    )
    emit("snapshot", "Spark: peak memory of its JVM", usage.memory["java"], "MiB")
    emit(
        "snapshot", "Spark: CPU of Python workers and command", usage.cpu["python"], "s", peer="in all", peer_value=cpu
    )
    emit("snapshot", "Spark: CPU of its JVM", usage.cpu["java"], "s", peer="in all", peer_value=cpu)


def live(url: str, to: Path, args: argparse.Namespace) -> None:
    """A running server to Parquet, against its target and single reads."""
    rates, singles, usage = [], [], None
    for number in range(args.pairs):
        usage, records = export(url, to, f"live-{number}")
        rates.append(records / usage.seconds)
        singles.append(run(PARTS, "single", "--metadata", url, "--seconds", args.seconds)["rate"])
    assert usage is not None
    emit_pairs("snapshot", "running ZooKeeper to Parquet", rates, singles, "znodes/s", "single reads with kazoo")
    emit(
        "snapshot",
        "running ZooKeeper to Parquet, the best",
        max(rates),
        "znodes/s",
        peer="target",
        peer_value=LIVE_TARGET,
    )
    emit(
        "snapshot",
        "running ZooKeeper to Parquet: CPU without the server's",
        sum(usage.cpu.values()) / records * 1e6,
        "µs/znode",
    )
    emit(
        "snapshot",
        "running ZooKeeper to Parquet: peak memory of all processes",
        usage.peak_mib,
        "MiB",
        peer="limit",
        peer_value=MEMORY_LIMIT_MIB,
    )


@contextlib.contextmanager
def endless_reading(url: str, rate: int) -> Iterator[None]:
    """A reading at a limited rate that has begun."""
    command = [sys.executable, "-m", PARTS, "endless", "--metadata", url, "--rate", str(rate)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as reader:
        try:
            assert reader.stdout is not None
            if not reader.stdout.readline():
                raise RuntimeError("the reading ended before it began")
            yield
        finally:
            reader.kill()


def main() -> None:
    """Run and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_sizes(parser)
    parser.add_argument("--rate", type=int, default=RATE, help="znodes a second that are read beside a writer")
    parser.add_argument("--no-spark", action="store_true", help="without Spark")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run of a writer, and of single reads")
    args = parser.parse_args()
    require_disk(DISK_BYTES)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        directory = Path(name)
        files, to = directory / "files", directory / "exported"
        sizes = [f"--{name}={getattr(args, name)}" for name in ("topics", "cursors", "ledgers")]
        made = run("bench.workload.zookeeper_tree", files, *sizes)
        what = f"{made['znodes']:,} znodes"
        from_files(f"file://{files}", to, what)
        if not args.no_spark:
            with_spark(f"file://{files}", to, what)
        with start_server(files, directory / "zookeeper", int(made["znodes"])) as server:
            live(server.url, to, args)
            case = f"a writer beside a reading of {args.rate:,} znodes/s"
            other = partial(endless_reading, server.url, args.rate)
            emit_beside("snapshot", case, server.url, args.pairs, args.seconds, other)


if __name__ == "__main__":
    main()
