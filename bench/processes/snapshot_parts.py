"""Parts of an export, each in a separate process: `python -m bench.processes.snapshot_parts PART --metadata URL`.

- `nodes`, `records`, `tables`, `files`: one process reads ZooKeeper's files; each part does one thing more: it reads
  the nodes, decodes their records, builds Arrow batches, writes Parquet. Prints CPU seconds.
- `endless`: reads all tables again and again until it is killed; prints a line once it reads.
- `single`: reads topics one by one with kazoo, as a simple program would. Prints reads per second.
- `writer`: sets its own nodes, some at a time, each durable when acknowledged. Prints writes per second, as a mean and
  of each whole second.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path

from kazoo.client import KazooClient

from mledger.metastore.records.paths import MANAGED_LEDGERS
from mledger.metastore.runtime.processes.priority import stand_back
from mledger.metastore.store import MetadataStore
from mledger.metastore.url import open_store
from mledger.snapshot.exports.destination import local_place
from mledger.snapshot.exports.files import write_batches
from mledger.snapshot.exports.workers import NICENESS
from mledger.snapshot.source.options import ReadOptions, parse_options
from mledger.snapshot.source.table_reader import plan_tables, read_nodes, read_share, read_tables
from mledger.snapshot.tables.decoder import decode
from mledger.snapshot.tables.node_kinds import BOOKIE_KINDS
from mledger.snapshot.tables.row_builder import TABLES, Batch, kinds_of

WRITES_AT_ONCE = 4
NODE_BYTES = 300
WARM_UP_S = 1.0
SINGLE_NODES = 500
IN_FLIGHT = 100


def part(options: ReadOptions, name: str) -> dict[str, float]:
    """CPU seconds of one process for one of the parts, and how many nodes or rows there were."""
    began, count = time.process_time(), 0
    if name in ("nodes", "records"):
        for kind, node in read_nodes(options, kinds_of(TABLES)):
            count += 1
            if name == "records" and kind not in BOOKIE_KINDS:
                decode(kind, node, options.ledgers_root)
    elif name == "tables":
        count = sum(batch.num_rows for _, batch in _batches(options))
    else:
        with tempfile.TemporaryDirectory(prefix="bench-") as directory:
            written = write_batches(_batches(options), local_place(Path(directory)), "part")
            count = sum(file.rows for _, file in written)
    return {"cpu_s": time.process_time() - began, "count": count}


def _batches(options: ReadOptions) -> Iterator[Batch]:
    return read_tables(options, dict.fromkeys(TABLES))


def endless(options: ReadOptions) -> None:
    """Read all tables, share after share, at the rate given, for ever, as a worker of an export with a rate."""
    stand_back(NICENESS)
    told = False
    while True:
        for share in plan_tables(options, list(TABLES)).shares:
            for _ in read_share(options, share, dict.fromkeys(TABLES), options.rate):
                if not told:
                    print(json.dumps({"reading": True}), flush=True)
                    told = True


def single(hosts: str, seconds: float) -> dict[str, float]:
    """Reads a second of kazoo's own client, some at a time."""
    client = KazooClient(hosts)
    client.start(timeout=60)
    try:
        paths = _some_nodes(client)
        end = time.monotonic() + seconds
        began, count, waiting = time.monotonic(), 0, deque(client.get_async(path) for path in paths[:IN_FLIGHT])
        while time.monotonic() < end:
            waiting.popleft().get(timeout=60)
            waiting.append(client.get_async(paths[count % len(paths)]))
            count += 1
        return {"rate": count / (time.monotonic() - began)}
    finally:
        client.stop()
        client.close()


def _some_nodes(client: KazooClient) -> list[str]:
    """Topics of the first namespace."""
    path = MANAGED_LEDGERS
    for _ in range(3):
        path = f"{path}/{min(client.get_children(path))}"
    return [f"{path}/{name}" for name in sorted(client.get_children(path))[:SINGLE_NODES]]


async def writer(url: str, seconds: float) -> dict[str, float | list[int]]:
    """Writes a second, of WRITES_AT_ONCE at a time: the mean, and how many in each whole second."""
    async with await open_store(url) as store:
        paths = [f"/bench-writer-{number}" for number in range(WRITES_AT_ONCE)]
        for path in paths:
            if await store.exists(path) is None:
                await store.create(path)
        await asyncio.gather(*(_write(store, path, WARM_UP_S) for path in paths))
        written = await asyncio.gather(*(_write(store, path, seconds) for path in paths))
        in_second = sum(written, Counter())
        return {"rate": in_second.total() / seconds, "each_second": [in_second[each] for each in range(int(seconds))]}


async def _write(store: MetadataStore, path: str, seconds: float) -> Counter[int]:
    """Write for so long. Returns how many were written in each second from the first, 0, on."""
    version, in_second = (await store.get(path)).version, Counter[int]()
    began = time.monotonic()
    while (since := time.monotonic() - began) < seconds:
        version = await store.put(path, bytes(NODE_BYTES), version)
        in_second[int(since)] += 1
    return in_second


def main() -> None:
    """Run a part; print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("nodes", "records", "tables", "files")
    parser.add_argument("part", choices=(*parts, "endless", "single", "writer"))
    parser.add_argument("--metadata", required=True)
    parser.add_argument("--rate", default="", help="znodes a second")
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    if args.part == "single":
        print(json.dumps(single(args.metadata.removeprefix("zk://"), args.seconds)))
    elif args.part == "writer":
        print(json.dumps(asyncio.run(writer(args.metadata, args.seconds))))
    else:
        options = parse_options({"metadata": args.metadata, "rate": args.rate})
        if args.part == "endless":
            endless(options)
        print(json.dumps(part(options, args.part)))


if __name__ == "__main__":
    main()
