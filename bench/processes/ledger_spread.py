"""Appends to many ledgers concurrently, and the same appends to one ledger, in turn; all entries are read back.

A separate process, run by `bench.topics`; prints one JSON object. Both keep the same number of batches in flight.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import defaultdict

import uvloop

import mledger
from bench.rig.cluster import SWITCH_INTERVAL_S
from bench.workload.payloads import pool
from bench.workload.topic import CONFIG, READ_BYTES, READ_ENTRIES, WrongEntry


class Spread:
    """Keeps `in_flight` batches of `size` payloads on their way to `topics`, each followed by one to the same topic."""

    def __init__(self, topics: list[mledger.ManagedLedger], payloads: list[bytes], size: int, in_flight: int) -> None:
        self._payloads = payloads + payloads[:size]
        self._count = len(payloads)
        self._size = size
        self._in_flight = in_flight
        self._topics = topics
        self._next = 0
        self._left = 0
        self._until = 0.0
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.batches = 0
        self.sent: dict[mledger.ManagedLedger, list[int]] = defaultdict(list)  # where in the pool each batch begins

    async def for_seconds(self, seconds: float) -> float:
        """Entries a second."""
        start = time.perf_counter()
        self._until = start + seconds
        for number in range(self._in_flight):
            self._push(self._topics[number % len(self._topics)])
        await self._done
        return self.batches * self._size / (time.perf_counter() - start)

    def _push(self, topic: mledger.ManagedLedger) -> None:
        first, self._next = self._next, (self._next + self._size) % self._count
        self.sent[topic].append(first)
        self._left += 1
        topic.append(self._payloads[first : first + self._size]).add_done_callback(
            lambda done: self._completed(topic, done)
        )

    def _completed(
        self, topic: mledger.ManagedLedger, done: "asyncio.Future[tuple[mledger.AppendedRange, ...]]"
    ) -> None:
        self._left -= 1
        self.batches += 1
        if error := done.exception():
            if not self._done.done():
                self._done.set_exception(error)
        elif time.perf_counter() < self._until:
            self._push(topic)
        elif not self._left and not self._done.done():
            self._done.set_result(None)

    async def verify(self, topic: mledger.ManagedLedger, position: mledger.Position) -> mledger.Position:
        """Every entry of `topic` from `position` on must be what was sent, in order; where it ends."""
        expected = [entry for first in self.sent[topic] for entry in self._payloads[first : first + self._size]]
        found: list[bytes] = []
        while entries := await topic.read(position, READ_ENTRIES, READ_BYTES):
            found += [entry.payload for entry in entries]
            last = entries[-1].position
            position = mledger.Position(last.ledger_id, last.entry_id + 1)
        if found != expected:
            raise WrongEntry(f"{topic.name}: {len(expected)} entries were acknowledged, {len(found)} others are read")
        return position


async def measure(args: argparse.Namespace) -> dict[str, list[float]]:
    """Rates of the spread appends and of those to one ledger, pair by pair."""
    payloads = pool(str(args.payload))
    names = [f"persistent://bench/batches-of-{args.batch}/topic-{number:05}" for number in range(args.ledgers)]
    rates: dict[str, list[float]] = {"spread": [], "one": []}
    async with mledger.open_cluster(args.metadata, config=CONFIG) as cluster:
        opened = await cluster.open_topics(names, create=True)
        if opened.failed:
            raise next(iter(opened.failed.values()))
        topics = list(opened.topics.values())
        ends = {topic: mledger.Position(topic.ledgers[0].ledger_id, 0) for topic in topics}
        for _ in range(args.pairs):
            for case, taking in (("spread", topics), ("one", topics[:1])):
                spread = Spread(taking, payloads, args.batch, args.ledgers)
                rates[case].append(await spread.for_seconds(args.seconds))
                for topic in taking:
                    ends[topic] = await spread.verify(topic, ends[topic])
    return rates


def main() -> None:
    """Append as the arguments say and print the rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--metadata", required=True)
    parser.add_argument("--ledgers", type=int, required=True, help="written at once; as many batches are in flight")
    parser.add_argument("--payload", type=int, default=1024, help="bytes")
    parser.add_argument("--batch", type=int, required=True, help="entries of a batch")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--pairs", type=int, required=True)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    print(json.dumps(uvloop.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
