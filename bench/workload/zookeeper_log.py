"""Writes a transaction log that changes one node in a hundred of a synthetic cluster, after its snapshot file.

What changes is what a night changes most: cursors move, topics and ledgers are written, closed ledgers are deleted. The
logs of later nights change the same nodes again, as on a cluster whose busy topics are the same every day. Ledgers are
deleted in one of the nights.
`python -m bench.workload.zookeeper_log DIRECTORY`, with the sizes that the snapshot file was made with.
"""

import argparse
import json
import random
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.workload.synthetic import START_MS, Made, Sizes, nodes
from bench.workload.zookeeper_tree import add_sizes
from mledger.snapshot.tables.node_kinds import NodeKind, kind_of
from mledger.snapshot.zookeeper_files.jute import FILE_HEADER, FILE_VERSION, HEADER, INT, OpCode

ONE_IN = 100
WRITTEN = (NodeKind.TOPIC, NodeKind.CURSOR, NodeKind.LEDGER)
DELETED_LEDGERS = 0.3
NIGHT_MS = 24 * 3_600_000
NIGHTS_BEFORE = 30
"""So long after the snapshot file the nights begin: what they do not change has not changed recently."""


def changes(made: Iterable[Made], night: int = 1, deletes: int = 1, seed: int = 1) -> Iterator[tuple[int, bytes]]:
    """The operation code and record of each change of a night, at random places; ledgers go in the night `deletes`."""
    rng = random.Random(seed)
    for node in made:
        kind = kind_of(node.path, "/ledgers") if node.path else None
        if kind not in WRITTEN or rng.randrange(ONE_IN):
            continue
        path = _text(node.path.encode())
        going = kind is NodeKind.LEDGER and rng.random() < DELETED_LEDGERS
        if going and night == deletes:
            yield OpCode.DELETE, path
        elif not going or night < deletes:
            yield OpCode.SET_DATA, path + _text(node.data) + INT.pack(node.version + night)


def write_log(directory: Path, sizes: Sizes, night: int = 1, deletes: int = 1) -> int:
    """Write the `log.<zxid>` of a night, after those before, into `directory`/version-2; returns its transactions."""
    made = list(nodes(sizes))
    first = len(made) + 1 + sum(sum(1 for _ in changes(made, before, deletes)) for before in range(1, night))
    found = list(changes(made, night, deletes))
    path = directory / "version-2" / f"log.{first:x}"
    with open(path, "wb") as stream:
        stream.write(FILE_HEADER.pack(b"ZKLG", FILE_VERSION, 0))
        for zxid, (code, fields) in enumerate(found, first):
            record = HEADER.pack(1, 0, zxid, START_MS + (NIGHTS_BEFORE + night) * NIGHT_MS + zxid, code) + fields
            stream.write(struct.pack(">qi", zlib.adler32(record), len(record)) + record + b"B")
    return len(found)


def _text(data: bytes) -> bytes:
    return INT.pack(len(data)) + data


def main() -> None:
    """Write the log; print how many transactions it has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--night", type=int, default=1, help="the first, or a later one whose former ones are there")
    parser.add_argument("--deletes", type=int, default=1, help="the night that deletes ledgers")
    add_sizes(parser)
    args = parser.parse_args()
    count = write_log(args.directory, Sizes(args.topics, args.cursors, args.ledgers), args.night, args.deletes)
    print(json.dumps({"transactions": count}))


if __name__ == "__main__":
    main()
