"""The official Go client on our broker, on a minimal one (`bench/processes/minimal_broker.py`), and on Java Pulsar.

Each has bookies of its own that sync before they answer; on one machine, the load included. Rounds alternate. Java
Pulsar is its standalone with one bookie in the same process, if Maven supplies it. Rates are also compared with what
the client could do if it had all processors to itself, by the processor time that it took for a message: no broker on
the same machine can be faster.
"""

import argparse
import contextlib
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file, too

from bench.rig.brokers import PULSAR, BenchedBroker, PythonBroker, StandalonePulsar, load, minimal_broker, our_broker
from bench.rig.cluster import BenchCluster
from bench.rig.report import emit, emit_pairs
from tests.support.java.driver import missing_tools

MINIMAL = "minimal broker"
CLIENT = "the client alone on all processors"
RATE = "messages/s"
READ = "entries_read"


@dataclass(frozen=True, slots=True)
class BrokerCase:
    """What the load does, and which of its figures count: each with its name and unit."""

    name: str
    options: tuple[str, ...]
    figures: Mapping[str, tuple[str, str]]


PUBLISHED = {"published_per_s": ("", RATE)}
RECEIVED = {"received_per_s": ("", RATE)}
CASES = (
    BrokerCase("publish 1 KiB, unbatched", ("-size", "1024"), PUBLISHED),
    BrokerCase("publish 100 B, unbatched", ("-size", "100"), PUBLISHED),
    BrokerCase("publish 100 B, batched", ("-size", "100", "-batch"), PUBLISHED),
    BrokerCase("publish and consume 1 KiB, shared", ("-size", "1024", "-consume", "shared"), RECEIVED),
    BrokerCase("drain 1 KiB, shared", ("-size", "1024", "-consume", "shared", "-drain"), RECEIVED),
    BrokerCase("publish and consume 100 B, batched", ("-size", "100", "-batch", "-consume", "shared"), RECEIVED),
    BrokerCase(
        "fan-out of 1 KiB to 10 subscriptions",
        ("-size", "1024", "-consume", "shared", "-subscriptions", "10"),
        RECEIVED,
    ),
    BrokerCase(
        "drain 1 KiB, 10 subscriptions",
        ("-size", "1024", "-consume", "shared", "-subscriptions", "10", "-drain"),
        RECEIVED,
    ),
    BrokerCase(
        "synchronous send of 1 KiB",
        ("-size", "1024", "-in-turn"),
        {"p50_ms": (": median", "ms"), "p99_ms": (": 99th percentile", "ms")},
    ),
)


def client_limit(cpu_us: float) -> float:
    """Messages a second of a client that takes so many microseconds of processor time for one, on all processors."""
    return 1e6 * (os.cpu_count() or 1) / cpu_us


def measure(case: BrokerCase, brokers: Mapping[str, BenchedBroker], seconds: float, pairs: int, where: str) -> None:
    """Run the rounds of a case on all brokers in turn, and print its results. The first round warms up."""
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    for number in range(pairs + 1):
        for name, broker in brokers.items():
            before = broker.entries_read() if isinstance(broker, PythonBroker) else None
            figures = load(broker.service_url, seconds if number else min(seconds, 2.0), case.options)
            if before is not None and isinstance(broker, PythonBroker):
                figures[READ] = ((broker.entries_read() or 0.0) - before) / figures["messages"]
            if number:
                found[name].append(figures)
    ours = found.pop("ours")
    for key, (what, unit) in case.figures.items():
        for peer, theirs in found.items():
            name = f"{case.name}{what}, {where}"
            emit_pairs("brokers", name, [each[key] for each in ours], [each[key] for each in theirs], unit, peer)
        if unit == RATE:
            rates, limits = [each[key] for each in ours], [client_limit(each["client_cpu_us"]) for each in ours]
            emit_pairs("brokers", f"{case.name}, {where}", rates, limits, unit, CLIENT)
    if "10 subscriptions" in case.name:
        read = [each[READ] for each in ours]
        name = f"{case.name}: read from bookies, {where}"
        emit("brokers", name, statistics.median(read), "entries per entry", spread=(min(read), max(read)))


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--bookies", type=int, action="append", help="default: 1, then 3")
    parser.add_argument("--no-java", action="store_true")
    args = parser.parse_args()
    with contextlib.ExitStack() as running:
        peers: dict[str, BenchedBroker] = {}
        if not args.no_java and not missing_tools():
            peers[PULSAR] = running.enter_context(StandalonePulsar())
        for bookies in args.bookies or (1, 3):
            with contextlib.ExitStack() as pair:
                clusters = [pair.enter_context(BenchCluster(bookies)) for _ in range(2)]
                ours = pair.enter_context(our_broker(clusters[0].url, bookies, "--metrics-port", "0"))
                minimal = pair.enter_context(minimal_broker(clusters[1].url, bookies))
                for case in CASES:
                    if args.case in case.name:
                        where = f"{bookies} bookie" + "s" * (bookies > 1)
                        measure(case, {"ours": ours, MINIMAL: minimal, **peers}, args.seconds, args.pairs, where)


if __name__ == "__main__":
    main()
