"""The process that is killed: owns a topic, appends without a pause, acknowledges behind, and says so line by line.

Each line on stdout is one JSON list, written before (`sent`, `issued`) or after (`acked`, `durable`) what it tells of.
With `pause_at` the process stands still at that step, as soon as enough is under way, and waits for its SIGKILL.
"""

import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass
from typing import Any

import uvloop

import mledger
from bookie.client import ledger_recovery
from bookie.client.config import ClientConfig
from bookie.client.writer import LedgerWriter
from mledger.config import ManagedLedgerConfig

TOPIC = "persistent://faults/ns/topic"
CUMULATIVE, HOLES = "cumulative", "holes"
BATCH = 100
WINDOW = 4000
UNDER_WAY = 1000
CONFIG = ManagedLedgerConfig(
    ensemble_size=3,
    write_quorum_size=3,
    ack_quorum_size=2,
    max_entries_per_ledger=3000,
    minimum_rollover_time_ms=0,
    metadata_max_entries_per_ledger=20,
    throttle_mark_delete=0,
    retention_time_ms=-1,
    retention_size_in_mb=-1,
)
CLIENT = ClientConfig(add_timeout_s=5.0, connect_timeout_s=2.0)
RECOVERING = "close recovered ledger"
CHANGING = "change ensemble"


def payload(epoch: int, number: int) -> bytes:
    """Entry `number` of the owner of `epoch`; sizes differ."""
    return b"%d %d " % (epoch, number) + b"x" * (64 + number % 97)


@dataclass
class Owner:
    """What one owner has under way."""

    epoch: int
    pause_at: str
    sent: int = 0
    acked: int = 0
    issued: int = 0
    durable: int = 0

    def say(self, *line: Any) -> None:
        """Tell the recorder, in one write."""
        os.write(1, json.dumps(line).encode() + b"\n")

    def step(self, name: str) -> None:
        """Stand still at the step to be killed at, with enough under way."""
        if name != self.pause_at:
            return
        enough = self.sent - self.acked >= UNDER_WAY and self.issued > self.durable
        if enough or name == RECOVERING:
            self.say("at", name)
            while True:
                signal.pause()

    def watch_client(self) -> None:
        """Have the bookie client's steps stop here too."""
        commit, plan = LedgerWriter._commit, ledger_recovery.plan_closed

        async def commit_watched(writer: LedgerWriter, first_entry: int, ensemble: tuple[str, ...]) -> None:
            self.step(CHANGING)
            await commit(writer, first_entry, ensemble)

        def plan_watched(*args: Any) -> Any:
            self.step(RECOVERING)
            return plan(*args)

        LedgerWriter._commit = commit_watched  # type: ignore[method-assign]
        ledger_recovery.plan_closed = plan_watched

    async def run(self, url: str) -> None:
        """Open, tell what was found, and append until killed."""
        async with mledger.open_cluster(url, config=CONFIG, client=CLIENT, session_timeout=4.0) as cluster:
            topic = await cluster.open_topic(TOPIC, create=True, on_step=self.step)
            cursors = [await topic.open_cursor(name, initial="earliest") for name in (CUMULATIVE, HOLES)]
            await topic.initialized()
            self.say("ledgers", [(ledger.ledger_id, ledger.entries) for ledger in topic.ledgers])
            for cursor in cursors:
                holes = [(tuple(r.lower), tuple(r.upper)) for r in cursor.holes]
                self.say("recovered", cursor.name, tuple(cursor.mark_delete), holes, cursor.backlog)
            self.say("open")
            await self._load(topic, *cursors)

    async def _load(self, topic: mledger.ManagedLedger, cumulative: mledger.Cursor, holes: mledger.Cursor) -> None:
        under_way: set[asyncio.Future[Any]] = set()
        while True:
            while self.sent - self.acked < WINDOW:
                first = self.sent
                self.sent += BATCH
                self.say("sent", self.sent)
                future = topic.append([payload(self.epoch, number) for number in range(first, self.sent)])
                future.add_done_callback(lambda done, first=first: self._acknowledge(done, first, cumulative, holes))
                under_way.add(future)
            _, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)

    def _acknowledge(
        self, done: "asyncio.Future[Any]", first: int, cumulative: mledger.Cursor, holes: mledger.Cursor
    ) -> None:
        ranges = done.result()
        self.acked += BATCH
        self.say("acked", first, [(r.ledger_id, r.first_entry, r.last_entry) for r in ranges])
        last = ranges[-1].positions()[-1]
        chosen = [position for where in ranges for position in where.positions() if position.entry_id // 50 % 2]
        self._issue(CUMULATIVE, last, lambda: cumulative.acknowledge_cumulative(last))
        self._issue(HOLES, chosen, lambda: holes.acknowledge(chosen))

    def _issue(self, cursor: str, what: Any, act: Any) -> None:
        self.issued += 1
        number = self.issued
        self.say("issued", cursor, number, what)

        def flushed(future: "asyncio.Future[None]") -> None:
            future.result()
            self.durable += 1
            self.say("durable", cursor, number)

        act().add_done_callback(flushed)


def main() -> None:
    """`owner.py URL EPOCH PAUSE_AT`."""
    sys.setswitchinterval(0.0005)
    url, epoch, pause_at = sys.argv[1:]
    owner = Owner(int(epoch), pause_at)
    owner.watch_client()
    uvloop.run(owner.run(url))


if __name__ == "__main__":
    main()
