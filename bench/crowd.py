"""One broker with 1,000 connections, 10,000 topics, and 10,000 subscriptions, a producer and a consumer of each.

It is measured while they are opened, while nobody does anything, and under an even load over all topics: the memory,
the processor time, and how long messages take. Then the same load runs beside a consumer that takes nothing of its
backlog, and beside a producer that publishes as fast as it is let. The clients run on the same processors. So the load
runs beside the same flood of another broker, too, with bookies of its own: what is slower there is the machine's part.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file, too

import uvloop

from bench.rig.brokers import PythonBroker, our_broker
from bench.rig.cluster import BenchCluster, cpu_seconds, peak_memory_mib, require_disk, resident_mib
from bench.rig.report import emit, emit_pairs
from bench.workload.many_topics import FloodProcess, ManyTopics, StalledConsumer

IDLE_LIMIT = 2.0
SETTINGS = ("--set", "topicLoadTimeoutSeconds=600")  # a busy machine is waited for
DISK_BYTES = 8 << 30
STALLED_MIB = 64
SETTLE_S = 5.0
PAUSE_S = 1.0
ROUNDS = 3
PAIRS = 3
Neighbour = StalledConsumer | FloodProcess
NONE: Mapping[str, Neighbour] = {}
FIGURES = (("received", "messages/s"), ("median of delivery", "ms"), ("99th percentile of delivery", "ms"))


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of `values` does not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


class Crowd:
    """One run."""

    def __init__(self, args: argparse.Namespace, broker: PythonBroker, other: PythonBroker) -> None:
        self._args, self._broker, self._other = args, broker, other
        topics = [f"persistent://public/default/topic-{number:05}" for number in range(args.topics)]
        self._topics = ManyTopics(broker.service_url, topics, args.connections)

    async def run(self) -> None:
        """All parts, one after the other."""
        await self._open()
        await self._idle("before any message")
        await self._load()
        await self._idle("after the load")
        await self._beside()
        self._emit("connections, producers and consumers lost", self._topics.lost, "lost")
        self._emit("peak memory", peak_memory_mib(self._broker.pid), "MiB")
        self._topics.close()

    async def _open(self) -> None:
        memory, cpu, began = self._memory(), cpu_seconds(self._broker.pid), time.perf_counter()
        await self._topics.open()
        took, cpu = time.perf_counter() - began, cpu_seconds(self._broker.pid) - cpu
        self._emit("created and opened", took, "s")
        self._emit("CPU of the broker, opening", 1000 * cpu / self._args.topics, "ms/topic")
        await asyncio.sleep(SETTLE_S)
        each = (self._memory() - memory) * 1024 / self._args.topics
        self._emit("memory of a topic with subscription, producer and consumer", each, "KiB")

    async def _idle(self, when: str) -> None:
        await asyncio.sleep(SETTLE_S)
        cpu, began = cpu_seconds(self._broker.pid), time.perf_counter()
        await asyncio.sleep(self._args.idle)
        share = 100 * (cpu_seconds(self._broker.pid) - cpu) / (time.perf_counter() - began)
        self._emit(f"idle, {when}: CPU", share, "%", peer="limit", peer_value=IDLE_LIMIT)
        self._emit(f"idle, {when}: memory", self._memory(), "MiB")

    async def _load(self) -> None:
        rate = self._args.rate
        for number in range(ROUNDS):
            cpu = cpu_seconds(self._broker.pid)
            await self._topics.publish(rate, self._args.seconds)
            cpu = (cpu_seconds(self._broker.pid) - cpu) / self._args.seconds
            name = f"{rate:,} messages/s over all topics, round {number + 1}"
            self._emit(f"{name}: CPU", 100 * cpu, "%")
            self._emit(f"{name}: memory", self._memory(), "MiB")
            self._emit_delays(name, self._topics.delays)
        fewest, most = min(self._topics.received), max(self._topics.received)
        self._emit("fewest messages of a topic", fewest, "messages", peer="most", peer_value=most)

    async def _beside(self) -> None:
        """The load alone and beside what might slow it, in turn."""
        url = self._broker.service_url
        await self._compare("a consumer that takes nothing", StalledConsumer(url, STALLED_MIB))
        floods = FloodProcess(url), FloodProcess(self._other.service_url)
        await self._compare("a producer's flood", floods[0], {"the same flood of another broker": floods[1]})
        for flood, where in zip(floods, ("the flood", "the flood of another broker"), strict=True):
            self._emit(f"stored of {where} meanwhile", statistics.median(flood.stored_per_s), "messages/s")

    async def _compare(self, name: str, beside: Neighbour, controls: Mapping[str, Neighbour] = NONE) -> None:
        """Print how the load fares beside a neighbour: compared with alone, and with how it fares beside controls."""
        neighbours: dict[str, Neighbour | None] = {"alone": None, **controls, name: beside}
        found: dict[str, list[list[float]]] = {each: [] for each in neighbours}
        await beside.prepare()
        for _ in range(PAIRS):
            for each, neighbour in neighbours.items():
                await asyncio.sleep(PAUSE_S)
                if neighbour is not None:
                    await neighbour.begin()
                found[each].append(await self._measured())
                if neighbour is not None:
                    await neighbour.end()
        for peer in ("alone", *controls):
            for index, (what, unit) in enumerate(FIGURES):
                own, others = ([figures[index] for figures in found[side]] for side in (name, peer))
                emit_pairs("crowd", f"{self._args.rate:,} messages/s beside {name}: {what}", own, others, unit, peer)

    async def _measured(self) -> list[float]:
        """Messages received a second, and the median and the 99th percentile of their delivery in ms."""
        rate = await self._topics.publish(self._args.rate, self._args.seconds)
        return [rate, *(1000 * percentile(self._topics.delays, share) for share in (0.5, 0.99))]

    def _emit_delays(self, name: str, delays: Sequence[float]) -> None:
        self._emit(f"{name}: median of delivery", 1000 * statistics.median(delays), "ms")
        self._emit(f"{name}: 99th percentile of delivery", 1000 * percentile(delays, 0.99), "ms")

    def _memory(self) -> float:
        return resident_mib(self._broker.pid)

    def _emit(self, case: str, value: float, unit: str, peer: str | None = None, peer_value: float = 0.0) -> None:
        emit("crowd", case, value, unit, peer=peer, peer_value=peer_value if peer else None)


def main() -> None:
    """Run and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--bookies", type=int, default=1)
    parser.add_argument("--rate", type=int, default=1000, help="messages a second")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each round under load")
    parser.add_argument("--pairs", type=int, default=0, help="not used: there is no peer")
    args = parser.parse_args()
    require_disk(DISK_BYTES)
    with (
        BenchCluster(args.bookies) as cluster,
        our_broker(cluster.url, args.bookies, *SETTINGS) as broker,
        BenchCluster(args.bookies) as other_cluster,
        our_broker(other_cluster.url, args.bookies, *SETTINGS) as other,
    ):
        uvloop.run(Crowd(args, broker, other).run())


if __name__ == "__main__":
    main()
