"""Opens a topic with many cursors after its owner was killed with -9, compared with Pulsar's managed ledger.

Each cursor has its own ledger whose last entry holds its state. Ours runs on our bookies; the peer runs Java's managed
ledger on Java's bookies, if Maven and Java are installed. Every process is new, and connects to ZooKeeper before.
"""

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file, too

from bench.rig.cluster import ROOT, BenchCluster, run
from bench.rig.java import OriginalCluster
from bench.rig.report import emit, emit_pairs
from tests.support.java.driver import build, missing_tools

PEER = "Pulsar managed-ledger 4.2 on BookKeeper 4.17"
KEYS = (("first append", "first_append_ms"), ("all cursors recovered", "recovered_ms"))


def ours(cursors: int, holes: int) -> dict[str, float]:
    """Set up, kill -9, open: milliseconds."""
    with BenchCluster() as cluster:
        arguments = ("--metadata", cluster.url, "--cursors", str(cursors), "--holes", str(holes))
        command = [sys.executable, "-m", "bench.processes.holes", *arguments]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
            assert owner.stdout is not None
            line = owner.stdout.readline()
            owner.kill()
        if not line:
            raise RuntimeError("the owner ended before its cursors were there")
        return run("bench.processes.reopen", *arguments)


def originals(class_path: str, cursors: int, holes: int) -> dict[str, float]:
    """The same with the originals."""
    topic = "bench/bench/persistent/topic"
    names = [f"cursor-{number:04}" for number in range(cursors)]
    with OriginalCluster(class_path) as cluster:
        with cluster.client() as owner:
            ledger = owner.call("topic.open", topic=topic)["ledgers"][-1][0]
            owner.call("topic.append", topic=topic, entries=[b"entry".hex()] * (2 * holes + 1))
            positions = [[ledger, 1 + 2 * number] for number in range(holes)]
            owner.call("topic.ack_many", topic=topic, cursors=names, positions=positions)
            owner.kill()
        with cluster.client() as owner:
            opened = owner.call("topic.open", topic=topic, cursors=False)["ms"]
            first = owner.call("topic.append", topic=topic, entries=[b"first".hex()])["ms"]
            backlogs = [cursor["backlog"] for cursor in owner.call("topic.state", topic=topic)["cursors"]]
    if backlogs != [holes + 2] * cursors:
        raise RuntimeError(f"{len(backlogs)} cursors recovered, or with another backlog than {holes + 2}")
    return {"first_append_ms": opened + first, "recovered_ms": opened}


def main() -> None:
    """Run the pairs and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cursors", type=int, default=1000)
    parser.add_argument("--holes", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0, help="not used: the work is given, not the time")
    parser.add_argument("--no-peer", action="store_true", help="leave the originals out")
    args = parser.parse_args()
    class_path = None if args.no_peer or missing_tools() else build()
    own, peers = [], []
    for _ in range(args.pairs):
        own.append(ours(args.cursors, args.holes))
        if class_path:
            peers.append(originals(class_path, args.cursors, args.holes))
    for name, key in KEYS:
        case = f"{args.cursors} cursors with {args.holes} holes: {name}"
        values = [figures[key] for figures in own]
        if peers:
            emit_pairs("recover", case, values, [figures[key] for figures in peers], "ms", PEER)
        else:
            emit("recover", case, statistics.median(values), "ms", spread=(min(values), max(values)), pairs=len(values))


if __name__ == "__main__":
    main()
