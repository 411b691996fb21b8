"""Writes a synthetic cluster as ZooKeeper's file (`python -m bench.workload.zookeeper_tree DIR`), and serves it."""

import argparse
import json
import shutil
from dataclasses import asdict
from pathlib import Path

from bench.workload.synthetic import Sizes, nodes
from bench.workload.zookeeper_file import WrittenSnapshot, write_snapshot
from mledger.metastore.zookeeper.launcher import ZooKeeperServer

START_TIMEOUT_S = 600.0
HEAP_MB_A_MILLION = 3000
LEAST_HEAP_MB = 256
# Servers run with the whole compiler; the launcher's choice is for a quick start.
COMPILER = "-XX:TieredStopAtLevel=4"


def start_server(files: Path, directory: Path, znodes: int) -> ZooKeeperServer:
    """A server in `directory` on a copy of the snapshot in `files`, over which it writes one of its own at once."""
    data = directory / "data" / "version-2"
    data.mkdir(parents=True)
    for path in (files / "version-2").iterdir():
        shutil.copyfile(path, data / path.name)
    heap_mb = LEAST_HEAP_MB + HEAP_MB_A_MILLION * znodes // 1_000_000
    options = (f"-Xms{heap_mb}m", COMPILER)
    return ZooKeeperServer.start(
        directory, tick_ms=2000, heap_mb=heap_mb, java_options=options, timeout=START_TIMEOUT_S
    )


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """The options that say how large the cluster is."""
    sizes = Sizes()
    for name, value in asdict(sizes).items():
        parser.add_argument(f"--{name}", type=int, default=value)


def main() -> None:
    """Make the file; print what it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    add_sizes(parser)
    args = parser.parse_args()
    written: WrittenSnapshot = write_snapshot(args.directory, nodes(Sizes(args.topics, args.cursors, args.ledgers)))
    print(json.dumps({"znodes": written.nodes, "bytes": written.size, "zxid": written.zxid}))


if __name__ == "__main__":
    main()
