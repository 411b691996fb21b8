"""BookKeeper's own client, with its default protocol 3, writes and reads a ledger: on our bookies and on Java's.

Both clusters and their clients run the whole time, and rounds alternate. E=3 Wq=3 Aq=2, CRC32C, sync on.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file, too

from bench.rig.cluster import BenchCluster
from bench.rig.java import OriginalCluster
from bench.rig.report import emit_pairs
from tests.support.java.driver import Original, build, missing_tools

PEER = "BookKeeper 4.17 bookies"
WARM_UP = 2
"""Rounds before those that count: Java compiles in them."""


def connect(original: Original, zookeeper: str) -> None:
    """Make it a client with BookKeeper's defaults, but without a limit on adds, and patient with a busy machine."""
    patient = {"addEntryTimeoutSec": "60", "readEntryTimeoutSec": "60"}
    original.call("ledger.connect", zookeeper=zookeeper, defaults=True, set={"throttle": "0", **patient})


def measure(client: Original, entries: int, size: int, window: int) -> tuple[float, float]:
    """One ledger: adds and reads a second."""
    quorums = {"ensemble": 3, "write_quorum": 3, "ack_quorum": 2}
    client.call("ledger.create", handle="measured", digest="CRC32C", password="", **quorums)
    took = client.call("ledger.measure", handle="measured", count=entries, size=size, window=window)
    client.call("ledger.close", handle="measured")
    if took["failed"]:
        raise RuntimeError(f"{took['failed']} adds failed")
    return entries / took["write_s"], entries / took["read_s"]


def main() -> None:
    """Run the pairs and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=50_000)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--window", type=int, default=1000, help="adds that are not answered yet")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0, help="not used: the work is given, not the time")
    args = parser.parse_args()
    if missing := missing_tools():
        parser.error(f"{', '.join(missing)} are needed")
    class_path, own, peers = build(), [], []
    with (
        OriginalCluster(class_path) as javas,
        BenchCluster() as ours,
        javas.client() as on_javas,
        javas.client() as on_ours,
    ):
        connect(on_javas, javas.zookeeper)
        connect(on_ours, ours.url.removeprefix("zk://"))
        for number in range(WARM_UP + args.pairs):
            pair = [measure(client, args.entries, args.size, args.window) for client in (on_ours, on_javas)]
            if number >= WARM_UP:
                own.append(pair[0])
                peers.append(pair[1])
    for place, what in enumerate(("adds", "reads")):
        case = f"Java's client by protocol 3, {args.size} bytes: {what}"
        emit_pairs("version3", case, [each[place] for each in own], [each[place] for each in peers], "1/s", PEER)


if __name__ == "__main__":
    main()
