"""The process that is killed: owns a topic, appends without a pause, acknowledges, and reports line by line.

Each line on stdout is one JSON list, written before (`sent`, `issued`) or after (`acked`, `durable`) the event. With
`pause_at` the process stops at that step as soon as enough is in flight, and waits for its SIGKILL. An append's error
ends it and is reported as `ended`. Lines on stdin: `clock MS` steps its clock.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import uvloop
from msgspec import structs

import mledger
from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.ledgers import ledger_recovery
from mledger.bookie.client.ledgers.writer import LedgerWriter
from mledger.config import ManagedLedgerConfig
from tests.faults.payloads import payload

TOPIC = "persistent://faults/ns/topic"
CUMULATIVE, HOLES = "cumulative", "holes"
BATCH = 100
WINDOW = 4000
UNDER_WAY = 1000
HOLE = 50
RETENTION_MS = 3600 * 1000
BEHIND = 20  # the number of batches after which holes are filled, where ledgers are to be trimmed
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
CLIENT = ClientConfig(add_timeout_s=60.0)
RECOVERING = "close recovered ledger"
CHANGING = "change ensemble"


@dataclass(frozen=True)
class OwnerLoad:
    """The load of an owner. `rate` 0: as fast as possible; `size` 0: several sizes; `addresses`: where bookies are."""

    rate: int = 0  # entries per second
    size: int = 0  # bytes per entry
    window: int = WINDOW  # entries in flight
    trim: bool = False  # consumed ledgers are deleted after an hour or past `keep_mb`
    keep_mb: int = 0
    entries_per_ledger: int = 3000
    cursor_flushes: float = 0.0  # per second; 0: without pause
    session_s: float = 30.0
    add_timeout_s: float = 60.0
    addresses: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def config(self) -> ManagedLedgerConfig:
        """The topic's configuration."""
        return replace(
            CONFIG,
            max_entries_per_ledger=self.entries_per_ledger,
            throttle_mark_delete=self.cursor_flushes,
            retention_time_ms=(RETENTION_MS if self.keep_mb else 0) if self.trim else -1,
            retention_size_in_mb=self.keep_mb if self.trim else -1,
        )

    def encode(self) -> str:
        """As the owner's argument."""
        return json.dumps(asdict(self))


class OwnerRun:
    """What one owner has in flight."""

    def __init__(self, epoch: int, pause_at: str, load: OwnerLoad) -> None:
        self.epoch, self.pause_at, self.load = epoch, pause_at, load
        self.sent = self.acked = self.issued = self.durable = 0
        self.clock_ms = 0
        self.failed: asyncio.Future[None]
        self._behind: deque[list[mledger.Position]] = deque()

    def say(self, *line: Any) -> None:
        """Report to the recorder, in one write."""
        data = memoryview(json.dumps(line).encode() + b"\n")
        while data:
            data = data[os.write(1, data) :]

    def step(self, name: str) -> None:
        """Stop at the step at which to be killed, with enough in flight."""
        if name != self.pause_at:
            return
        enough = self.sent - self.acked >= UNDER_WAY and self.issued > self.durable
        if enough or name == RECOVERING:
            self.say("at", name)
            while True:
                signal.pause()

    def watch_client(self) -> None:
        """Make the bookie client's steps stop here too."""
        commit, plan = LedgerWriter._commit, ledger_recovery.plan_closed

        async def commit_watched(writer: LedgerWriter, first_entry: int, ensemble: tuple[str, ...]) -> None:
            self.step(CHANGING)
            await commit(writer, first_entry, ensemble)

        def plan_watched(*args: Any) -> Any:
            self.step(RECOVERING)
            return plan(*args)

        LedgerWriter._commit = commit_watched  # type: ignore[method-assign]
        ledger_recovery.plan_closed = plan_watched

    def now_ms(self) -> int:
        """The clock that is stepped."""
        return time.time_ns() // 1_000_000 + self.clock_ms

    async def run(self, url: str) -> None:
        """Open the topic, report what was found, and append until killed or until an append fails."""
        loop = asyncio.get_running_loop()
        self.failed = loop.create_future()
        loop.add_reader(0, self._command)
        config, client = self.load.config, structs.replace(CLIENT, add_timeout_s=self.load.add_timeout_s)
        try:
            async with mledger.open_cluster(
                url, config=config, client=client, session_timeout=self.load.session_s, now_ms=self.now_ms
            ) as cluster:
                topic = await cluster.open_topic(TOPIC, create=True, take_over=True, on_step=self.step)
                cursors = [await topic.open_cursor(name, initial="earliest") for name in (CUMULATIVE, HOLES)]
                await topic.initialized()
                self.say("ledgers", [(each.ledger_id, each.entries) for each in topic.ledgers if each.entries])
                for cursor in cursors:
                    holes = [(tuple(r.lower), tuple(r.upper)) for r in cursor.holes]
                    self.say("recovered", cursor.name, tuple(cursor.mark_delete), holes, cursor.backlog)
                self.say("open")
                if self.load.trim and (last := topic.last_confirmed).entry_id >= 0:
                    self._issue(HOLES, last, lambda: cursors[1].acknowledge_cumulative(last))  # of earlier owners
                load = loop.create_task(self._load(topic, *cursors))
                await asyncio.wait([self.failed, load], return_when=asyncio.FIRST_COMPLETED)
                await topic.abandon()
                await (self.failed if self.failed.done() else load)
        except mledger.MledgerError as error:
            self.say("ended", type(error).__name__, str(error))

    def _command(self) -> None:
        for line in os.read(0, 1 << 16).decode().splitlines():
            word, value = line.split()
            assert word == "clock", line
            self.clock_ms += int(value)

    async def _load(self, topic: mledger.ManagedLedger, cumulative: mledger.Cursor, holes: mledger.Cursor) -> None:
        under_way: set[asyncio.Future[Any]] = set()
        due = time.monotonic()
        while not self.failed.done():
            while self.sent - self.acked < self.load.window and due <= time.monotonic():
                first = self.sent
                self.sent += BATCH
                self.say("sent", self.sent)
                batch = [payload(self.epoch, number, self.load.size) for number in range(first, self.sent)]
                begun = time.monotonic()
                future = topic.append(batch)
                future.add_done_callback(
                    lambda done, first=first, begun=begun: self._acknowledge(done, first, begun, cumulative, holes)
                )
                under_way.add(future)
                if self.load.rate:
                    due += BATCH / self.load.rate
            if self.sent - self.acked < self.load.window:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                under_way = {future for future in under_way if not future.done()}
            elif under_way:
                _, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)

    def _acknowledge(
        self, done: "asyncio.Future[Any]", first: int, begun: float, cumulative: mledger.Cursor, holes: mledger.Cursor
    ) -> None:
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or self.failed.done():
            return
        if error is not None:
            self.failed.set_exception(error)
            return
        ranges = done.result()
        self.acked += BATCH
        runs = [(r.ledger_id, r.first_entry, r.last_entry) for r in ranges]
        self.say("acked", first, runs, round(time.monotonic() - begun, 4))
        last = ranges[-1].positions()[-1]
        self._issue(CUMULATIVE, last, lambda: cumulative.acknowledge_cumulative(last))
        chosen = self._choose([position for where in ranges for position in where.positions()])
        self._issue(HOLES, _runs(chosen), lambda: holes.acknowledge(chosen))

    def _choose(self, positions: list[mledger.Position]) -> list[mledger.Position]:
        """What `holes` acknowledges: every other fifty, and later the rest, where ledgers are to be trimmed."""
        chosen = [position for position in positions if position.entry_id // HOLE % 2]
        if self.load.trim:
            self._behind.append([position for position in positions if not position.entry_id // HOLE % 2])
            if len(self._behind) > BEHIND:
                chosen = self._behind.popleft() + chosen
        return chosen

    def _issue(self, cursor: str, what: Any, act: Any) -> None:
        self.issued += 1
        number = self.issued
        self.say("issued", cursor, number, what)

        def flushed(future: "asyncio.Future[None]") -> None:
            if not future.cancelled() and future.exception() is None:
                self.durable += 1
                self.say("durable", cursor, number)

        with contextlib.suppress(mledger.ManagedLedgerFenced):  # the next append reports it too
            act().add_done_callback(flushed)


def _runs(positions: list[mledger.Position]) -> list[tuple[int, int, int]]:
    """Ledger, first and last entry of each run of positions, which are in order."""
    runs: list[tuple[int, int, int]] = []
    for ledger, entry in positions:
        if runs and runs[-1][0] == ledger and runs[-1][2] == entry - 1:
            runs[-1] = (ledger, runs[-1][1], entry)
        else:
            runs.append((ledger, entry, entry))
    return runs


def _reach_bookies_at(addresses: dict[str, tuple[str, int]]) -> None:
    """Make this process find bookies at the proxies of a test."""
    from mledger.bookie.client.connections import pool

    resolve = pool.resolve

    def elsewhere(registrations: Any, bookie_id: str) -> tuple[str, int]:
        host, port = resolve(registrations, bookie_id)
        host, port = addresses.get(bookie_id, (host, port))
        return host, port

    pool.resolve = elsewhere


def main() -> None:
    """`owner.py URL EPOCH PAUSE_AT [LOAD]`."""
    sys.setswitchinterval(0.0005)
    url, epoch, pause_at, *rest = sys.argv[1:]
    load = OwnerLoad(**json.loads(rest[0])) if rest else OwnerLoad()
    if load.addresses:
        _reach_bookies_at({bookie: (host, port) for bookie, (host, port) in load.addresses.items()})
    owner = OwnerRun(int(epoch), pause_at, load)
    owner.watch_client()
    uvloop.run(owner.run(url))


if __name__ == "__main__":
    main()
