"""A broker takes over the topics of one that was killed with -9, its clients' first messages included.

Two brokers run. One serves all topics; each has a subscription with messages left, and is being produced to. That
broker is killed. Once its session has ended, so that its topics are nobody's, the clients come to the other one, all at
once: they look every topic up, subscribe, and produce. The time ends when each topic has delivered the first message
that was left and stored a new one. Then the two change roles.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file, too

import uvloop

from bench.rig.brokers import PythonBroker, our_broker
from bench.rig.cluster import BenchCluster, cpu_seconds, peak_memory_mib
from bench.rig.report import emit
from bench.rig.wire_client import WireClient, entry_of, payload_of
from mledger.metastore.url import open_store
from mledger.pb.PulsarApi_pb2 import MessageIdData

LIMIT_S = 5.0
CONNECTIONS = 10
LEFT = 3
"""Messages of each topic that nobody has acknowledged."""
NAMESPACE = "/namespace/public/default"
SETTINGS = ("metadataStoreSessionTimeoutMillis=6000", "topicLoadTimeoutSeconds=300")
ROUND_LIMIT_S = 300.0


class WrongMessage(Exception):
    """A topic delivered another message than it should have, or an acknowledged one again."""


class TopicClients:
    """Clients of all topics, at one broker; `number` counts the brokers that have served them."""

    def __init__(self, topics: list[str], service_url: str, number: int) -> None:
        self._topics, self._url, self._round = topics, service_url, number
        self._clients: list[WireClient] = []
        self._first = [asyncio.get_running_loop().create_future() for _ in topics]
        self._ids: list[list[MessageIdData]] = [[] for _ in topics]

    async def open(self) -> None:
        """Look up, subscribe, produce and publish to every topic; ends with the first message of each."""
        made = (WireClient.connect(self._url, self._came) for _ in range(CONNECTIONS))
        self._clients = list(await asyncio.gather(*made))
        await together(self._open(number, topic) for number, topic in enumerate(self._topics))

    async def _open(self, number: int, topic: str) -> None:
        client = self._client(number)
        if (url := await client.look_up(topic)) != self._url:
            raise WrongMessage(f"{topic} is served by {url}, not by {self._url}")
        await asyncio.gather(client.subscribe(number, topic, "sub", 1000), client.produce(number, topic))
        await client.publish(number, 0, self._entry(0))
        await self._first[number]

    async def publish_rest(self) -> None:
        """Publish the rest of the messages."""
        for sequence in range(1, LEFT + 1):
            await together(
                self._client(number).publish(number, sequence, self._entry(sequence))
                for number in range(len(self._topics))
            )

    async def acknowledge(self, count: int) -> None:
        """Wait until every topic has delivered so many messages; acknowledge all but the last ones, durably."""
        while min(map(len, self._ids)) < count:
            await asyncio.sleep(0.05)
        await together(
            self._client(number).acknowledge_durably(number, ids[:-LEFT]) for number, ids in enumerate(self._ids)
        )

    def _came(self, number: int, message_id: MessageIdData, entry: bytes) -> None:
        told = payload_of(entry).decode()
        if not self._ids[number]:
            wanted = f"{self._round - 1} 1" if self._round else "0 0"  # the first that is not acknowledged
            if told != wanted:
                self._first[number].set_exception(WrongMessage(f"{self._topics[number]} began with {told}"))
            else:
                self._first[number].set_result(None)
        self._ids[number].append(message_id)

    def _entry(self, sequence: int) -> bytes:
        return entry_of(b"%d %d" % (self._round, sequence), sequence, time.time_ns() // 1_000_000)

    def _client(self, number: int) -> WireClient:
        return self._clients[number % CONNECTIONS]


async def together(works: "Iterable[Awaitable[None]]") -> None:
    """Do all at once; raises the first error."""
    async with asyncio.timeout(ROUND_LIMIT_S):
        await asyncio.gather(*works)


async def nobody_serves(metadata: str) -> None:
    """Wait until no bundle has an owner: the killed broker's session has ended."""
    async with await open_store(metadata) as store, asyncio.timeout(ROUND_LIMIT_S):
        while any((await store.children_many([NAMESPACE]))[0] or ()):
            await asyncio.sleep(0.05)


async def serve(args: argparse.Namespace, cluster: BenchCluster) -> None:
    """Have broker after broker serve the topics, each killed in turn."""
    topics = [f"persistent://public/default/topic-{number:05}" for number in range(args.topics)]
    broker = new_broker(cluster, args.bookies)
    seconds, cpus, memory = [], [], 0.0
    try:
        for number in range(args.pairs + 1):
            clients = TopicClients(topics, broker.service_url, number)
            cpu, began = cpu_seconds(broker.pid), time.perf_counter()
            await clients.open()
            if number:
                seconds.append(time.perf_counter() - began)
                cpus.append(cpu_seconds(broker.pid) - cpu)
                memory = max(memory, peak_memory_mib(broker.pid))
            await clients.publish_rest()
            await clients.acknowledge(LEFT + 1 + (LEFT if number else 0))
            if number < args.pairs:
                following = new_broker(cluster, args.bookies)
                broker.__exit__(None, None, None)
                broker = following
                await nobody_serves(cluster.url)
    finally:
        broker.__exit__(None, None, None)
    report(args, seconds, cpus, memory)


def new_broker(cluster: BenchCluster, bookies: int) -> PythonBroker:
    """A broker that serves nothing yet."""
    return our_broker(cluster.url, bookies, *(word for each in SETTINGS for word in ("--set", each))).__enter__()


def report(args: argparse.Namespace, seconds: list[float], cpus: list[float], memory: float) -> None:
    """Print the results."""
    case = f"{args.topics:,} topics of a killed broker, {args.bookies} bookie" + "s" * (args.bookies > 1)
    spread = (min(seconds), max(seconds))
    median = statistics.median(seconds)
    emit("takeover", f"{case}: first messages", median, "s", peer="limit", peer_value=LIMIT_S, spread=spread)
    each = [1000 * cpu / args.topics for cpu in cpus]
    emit("takeover", f"{case}: CPU of the broker", statistics.median(each), "ms/topic", spread=(min(each), max(each)))
    emit("takeover", f"{case}: peak memory of the broker", memory, "MiB")


def main() -> None:
    """Run and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--bookies", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=5, help="how many brokers are killed")
    parser.add_argument("--seconds", type=float, default=0, help="not used: the work is given, not the time")
    args = parser.parse_args()
    with BenchCluster(args.bookies) as cluster:
        uvloop.run(serve(args, cluster))


if __name__ == "__main__":
    main()
