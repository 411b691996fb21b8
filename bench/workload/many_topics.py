"""Clients of very many topics on one broker: each topic has a producer and a shared subscription with one consumer."""

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from bench.rig.cluster import ROOT
from bench.rig.wire_client import WireClient, entry_of, payload_of
from mledger.pb.PulsarApi_pb2 import MessageIdData

OPENED_AT_ONCE = 1000
TICK_S = 0.01
PERMITS = 1000
DRAIN_S = 30.0
LONGEST_S = 600.0
STALLED = "persistent://public/default/stalled"


class MessagesMissing(Exception):
    """What was published did not reach its consumers."""


class ManyTopics:
    """The clients of `topics`, over so many connections; messages carry the time at which they were sent."""

    def __init__(self, service_url: str, topics: list[str], connections: int) -> None:
        self._url, self._topics, self._count = service_url, topics, connections
        self._clients: list[WireClient] = []
        self._sequences = [0] * len(topics)
        self._next = 0
        self.received = [0] * len(topics)
        self.delays: list[float] = []
        """Seconds from each message's sending to its receipt by a consumer."""

    async def open(self) -> None:
        """Connect; open a producer and a consumer of each topic."""
        makers = (lambda: WireClient.connect(self._url, self._came) for _ in range(self._count))
        self._clients = await each_of(makers)
        await each_of(lambda number=number: self._open(number) for number in range(len(self._topics)))  # type: ignore[misc]

    async def _open(self, number: int) -> None:
        client, topic = self._client(number), self._topics[number]
        await client.look_up(topic)
        await asyncio.gather(client.subscribe(number, topic, "sub", PERMITS), client.produce(number, topic))

    @property
    def lost(self) -> int:
        """Connections that the broker cut, and producers and consumers that it closed."""
        return sum(client.lost + client.closed_by_broker for client in self._clients)

    async def publish(self, per_second: int, seconds: float) -> float:
        """Publish evenly, to topic after topic, and wait until all is received; returns messages received a second."""
        self.delays = []
        sent, began = 0, time.perf_counter()
        before = sum(self.received)
        while (passed := time.perf_counter() - began) < seconds:
            due = min(int(passed * per_second) - sent, per_second)
            for _ in range(due):
                self._publish(self._next)
                self._next = (self._next + 1) % len(self._topics)
            sent += due
            await asyncio.sleep(TICK_S)
        in_time = sum(self.received) - before
        took = time.perf_counter() - began
        until = time.perf_counter() + DRAIN_S
        while sum(self.received) - before < sent:
            if time.perf_counter() > until:
                raise MessagesMissing(f"{sent - sum(self.received) + before} of {sent} messages did not come")
            await asyncio.sleep(TICK_S)
        return in_time / took

    def _publish(self, number: int) -> None:
        sequence, self._sequences[number] = self._sequences[number], self._sequences[number] + 1
        payload = b"%d" % time.perf_counter_ns()
        future = self._client(number).publish(
            number, sequence, entry_of(payload, sequence, time.time_ns() // 1_000_000)
        )
        future.add_done_callback(_check)

    def _came(self, number: int, message_id: MessageIdData, entry: bytes) -> None:
        self.delays.append((time.perf_counter_ns() - int(payload_of(entry))) / 1e9)
        self.received[number] += 1
        client = self._client(number)
        client.acknowledge(number, message_id)
        client.flow(number, 1)

    def _client(self, number: int) -> WireClient:
        return self._clients[number % self._count]

    def close(self) -> None:
        """Cut all connections."""
        for client in self._clients:
            client.close()


class StalledConsumer:
    """A consumer with a backlog of `mib` that takes nothing of what it is sent."""

    def __init__(self, service_url: str, mib: int) -> None:
        self._url, self._mib = service_url, mib

    async def prepare(self) -> None:
        """Publish the backlog."""
        writer = await WireClient.connect(self._url, _ignore)
        await writer.produce(0, STALLED)
        entry = entry_of(bytes(1 << 16), 0, time.time_ns() // 1_000_000)
        for sequence in range(self._mib * 16):
            await writer.publish(0, sequence, entry)
        writer.close()

    async def begin(self) -> None:
        """Subscribe, ask for everything, and read no more."""
        self._client = await WireClient.connect(self._url, _ignore)
        await self._client.subscribe(0, STALLED, "sub", 0)
        self._client.stall()
        self._client.flow(0, self._mib * 16)

    async def end(self) -> None:
        """Cut its connection."""
        self._client.close()


class FloodProcess:
    """A producer in a process of its own that publishes as fast as it is let."""

    def __init__(self, service_url: str) -> None:
        self._command = [sys.executable, "-m", "bench.processes.flood", service_url]
        self.stored_per_s: list[float] = []
        """Of each time it ran."""

    async def prepare(self) -> None:
        """Do nothing: `begin` starts the process."""

    async def begin(self) -> None:
        """Start it; it publishes when this returns."""
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(*self._command, stdout=pipe, cwd=ROOT)
        assert self._process.stdout is not None
        await self._process.stdout.readline()

    async def end(self) -> None:
        """Stop it."""
        self._process.terminate()
        said, _ = await self._process.communicate()
        self.stored_per_s.append(json.loads(said)["stored_per_s"])


async def each_of(works: "Iterable[Callable[[], Awaitable[WireClient | None]]]") -> list:  # type: ignore[type-arg]
    """Do all, so many at once; the results, in the order in which they came."""
    waiting, results = deque(works), []

    async def work() -> None:
        while waiting:
            results.append(await waiting.popleft()())

    async with asyncio.timeout(LONGEST_S):
        await asyncio.gather(*(work() for _ in range(OPENED_AT_ONCE)))
    return results


def _check(stored: "asyncio.Future[None]") -> None:
    stored.result()


def _ignore(number: int, message_id: MessageIdData, entry: bytes) -> None:
    """Let a message pass."""
