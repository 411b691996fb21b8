"""Owners of one topic: they open it, append, acknowledge on cursors and trim as a schedule says, one after another."""

import asyncio
from collections.abc import Sequence

import mledger
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.codec import decode_managed_cursor_info
from mledger.metastore.records.paths import DELETIONS, PENDING, cursor_name, managed_ledger_path
from mledger.metastore.records.values import NO_CURSOR_LEDGER
from tests.faults.checker import (
    Acknowledged,
    FoundEntries,
    OwnerAppends,
    RecoveredCursor,
    RecoveredTopic,
    check_cursor,
    check_delivery,
    check_ledgers,
    check_topic,
)
from tests.faults.history import acknowledged_of
from tests.sim.checks import Violated, check_fenced
from tests.sim.cluster import CLIENT, MANAGED_LEDGER, SESSION_S, SimCluster
from tests.sim.schedule import Step
from tests.sim.system.loop import Process
from tests.sim.topic_knowledge import KnownCursor, KnownTopic

TOPIC = "persistent://public/default/t"
CURSORS = ("one", "two", "three")
_LEAVES_S = 2.0
_IMPATIENT_S = 1
_LOOK_S = 0.1
_SETTLED_S = 30.0


class TopicOwner:
    """A process that owns the topic for a while."""

    def __init__(self, cluster: SimCluster, name: str, steps: Sequence[Step], sizes: tuple[int, int, int]) -> None:
        self._cluster, self.name, self._steps = cluster, name, steps
        self._known: KnownTopic = cluster.topic
        self._record_writers = cluster.world.metadata.writers.setdefault(managed_ledger_path(MANAGED_LEDGER), [])
        self.process: Process = cluster.world.loop.process(name)
        self.process.on_death.append(self._died)
        self.config = mledger.ManagedLedgerConfig(
            ensemble_size=sizes[0],
            write_quorum_size=sizes[1],
            ack_quorum_size=sizes[2],
            max_entries_per_ledger=cluster.limits.entries_a_ledger,
            minimum_rollover_time_ms=0,
            metadata_max_entries_per_ledger=3,
            throttle_mark_delete=0.0,
            metadata_operations_timeout_s=5 if not cluster.limits.impatient else _IMPATIENT_S,
        )
        self._epoch = -1
        self._sent = 0
        self._away_s = 0.0
        self._began = self._opened = self._written = 0
        self._acked: list[tuple[int, int, int, int]] = []
        self._failed: list[tuple[int, int]] = []
        self._topic: mledger.ManagedLedger | None = None
        self._waiting: set[asyncio.Future[object]] = set()
        self._taken_from_others = False
        self._resetting: set[str] = set()
        self.ended = False

    def start(self) -> None:
        """Begin."""
        self._cluster.world.loop.start(self.process, self._run)

    @property
    def done(self) -> bool:
        """Whether all its requests have ended."""
        return self.ended and not self._waiting

    def _died(self) -> None:
        self._cluster.world.network.process_died(self.process, power=False)
        self.ended = True
        self._waiting.clear()

    async def _run(self) -> None:
        loop = self._cluster.world.loop
        await asyncio.sleep(self._steps[0].at - loop.now)
        while True:
            try:
                async with mledger.open_cluster(
                    "sim://", config=self.config, client=CLIENT, session_timeout=SESSION_S
                ) as cluster:
                    for step in self._steps:
                        await asyncio.sleep(step.at - loop.now)
                        await self._take(cluster, step)
                    if self._waiting:
                        await asyncio.wait(list(self._waiting))
                break
            except (MledgerError, OSError) as error:
                self._note(f"closed with {type(error).__name__}: {error}")
                if self._topic is not None or loop.now > self._steps[-1].at:
                    break
        self.ended = True

    def _note(self, what: str) -> None:
        self._cluster.note(self.name, what)

    async def _take(self, cluster: mledger.Cluster, step: Step) -> None:
        try:
            if step.what == "open":
                await self._open(cluster)
                self._note("opened the topic")
            elif step.what == "die":
                self._note("dies")
                self._cluster.world.loop.kill(self.process)
                await asyncio.sleep(1000)
            elif step.what == "bookies away at recovery":
                self._away_s = step.seconds
            elif step.what == "stay" and self._topic is not None:
                await self._stay(self._topic)
            elif step.what == "leave":
                await asyncio.sleep(_LEAVES_S)
            elif step.what == "close" and self._topic is not None:
                await self._topic.close()
                self._known.holding.discard(self.name)
                self._note("closed the topic")
            elif self._topic is not None:
                self._begin(self._topic, step)
        except (MledgerError, OSError) as error:
            self._note(f"{step.what} failed: {type(error).__name__}: {error}")

    async def _open(self, cluster: mledger.Cluster) -> None:
        self._known.opening.add(self.name)
        self._known.openings += 1
        written = len(self._record_writers)
        began = self._known.openings
        self._taken_from_others = bool(self._known.holding - {self.name})
        try:
            self._topic = await cluster.open_topic(TOPIC, create=True, take_over=True, trim=True, events=self._happened)
        finally:
            if self.process.alive:
                self._known.opening.discard(self.name)
                self._known.openings += 1
        self._began, self._opened, self._written = began, self._known.openings, written
        self._known.holding.add(self.name)
        self._epoch = len(self._known.given)
        self._known.given.append(OwnerAppends(self._epoch, 0, self._acked, self._failed))

    def _begin(self, topic: mledger.ManagedLedger, step: Step) -> None:
        """Begin a request; those before it may still be under way."""
        written = self._written

        async def use() -> None:
            try:
                await self._use(topic, step)
            except (MledgerError, OSError) as error:
                self._note(f"{step.what} failed: {type(error).__name__}: {error}")
                self._cluster.check(self._check_fenced, error, written)

        task = asyncio.get_running_loop().create_task(use())
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _use(self, topic: mledger.ManagedLedger, step: Step) -> None:
        name = CURSORS[int(step.seconds * len(CURSORS)) % len(CURSORS)]
        match step.what:
            case "append":
                self._append(topic, 1 + step.number % 5)
            case "subscribe":
                await self._subscribe(topic, name, "latest" if step.number % 4 == 0 else "earliest")
            case "acknowledge" | "acknowledge up to":
                self._acknowledge(topic, name, step)
            case "flush" if name in topic.open_cursors:
                await topic.open_cursors[name].flush()
            case "trim":
                plan = await topic.trim()
                self._note(f"trimmed {[ledger.ledger_id for ledger in plan.deletions]}")
            case "unsubscribe" if name in topic.cursors:
                self._known.dropped.add(name)
                await topic.delete_cursor(name)
                self._note(f"unsubscribed {name}")
            case "roll over":
                await topic.roll_over()
            case _:
                await self._move(topic, name, step)

    async def _move(self, topic: mledger.ManagedLedger, name: str, step: Step) -> None:
        match step.what:
            case "reset":
                await self._reset(topic, name, step)
            case "truncate":
                await self._truncate(topic)
            case "terminate":
                end = await topic.terminate()
                self._known.terminated = end
                self._note(f"terminated the topic at {end}")

    def _happened(self, event: object) -> None:
        """Take every bookie away when the topic is open and a cursor is being recovered, if that is wanted."""
        if isinstance(event, mledger.events.RecoveringFromLedger) and self._away_s:
            self._note("the bookies go away")
            for machine in self._cluster.machines.values():
                machine.end(power=False, away_s=self._away_s)
            self._away_s = 0.0

    def _check_fenced(self, error: Exception, written: int) -> None:
        """Only another owner, or the end of its session, fences an owner.

        `written`: how often the record had been written when this owner began to open the topic. A
        metadata server that lags may keep an owner waiting for the answer to its last write of the
        opening, so the other's write may come before this owner has opened the topic.

        As to the owner node: another opening while this owner was opening too may have claimed it
        after this owner did, and failed. This owner then opens the topic, as the record is unchanged,
        and yields when it next looks at the node. An owner that lost its session while it was opening
        yields too, if the session of the owner before ended: until the record is written, that one
        takes the node for its own again.
        """
        if not isinstance(error, mledger.ManagedLedgerFenced):
            return
        overlapped = self._opened > self._began + 1 or self._known.openings > self._opened
        claimed = overlapped or bool(self._known.opening) or self._taken_from_others
        wrote = any(writer is not self.process for writer in self._record_writers[written:])
        check_fenced(self.name, str(error), claimed=claimed, wrote=wrote)

    async def _stay(self, topic: mledger.ManagedLedger) -> None:
        """Own the topic until everything is quiet, and durable (C3, R5)."""
        while not self._cluster.quiet:
            await asyncio.sleep(_LOOK_S)
        until = self._cluster.world.loop.now + _SETTLED_S
        while self._cluster.world.loop.now < until:
            if topic.state is not mledger.TopicState.OPEN:
                return
            left = [name for name in topic.cursors if name not in self._known.dropped and not _settled(topic, name)]
            if not left:
                self._note("everything is durable")
                return
            await asyncio.sleep(_LOOK_S)
        self._cluster.check(_raise, Violated(f"cursors {left} are not recovered and durable after {_SETTLED_S:g} s"))

    # Appends

    def _append(self, topic: mledger.ManagedLedger, count: int) -> None:
        first = self._sent
        batch = [b"%d %d" % (self._epoch, number) for number in range(first, first + count)]
        future = topic.append(batch)
        self._sent += count
        self._known.given[self._epoch] = OwnerAppends(self._epoch, self._sent, self._acked, self._failed)
        self._waiting.add(future)  # type: ignore[arg-type]
        future.add_done_callback(lambda done: self._appended(first, count, done))

    def _appended(self, first: int, count: int, done: "asyncio.Future[mledger.Appended]") -> None:
        self._waiting.discard(done)  # type: ignore[arg-type]
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._failed.append((first, count))
            self._note(f"append of {first} failed: {type(error).__name__}: {error}")
            return
        number, end = first, self._known.terminated
        if end is not None and done.result()[-1].positions()[-1] > end:
            self._cluster.check(_raise, Violated(f"append of {first} was acknowledged behind the topic's end, {end}"))
        for where in done.result():
            self._acked.append((number, where.ledger_id, where.first_entry, where.last_entry))
            number += where.last_entry - where.first_entry + 1
            self._known.positions += where.positions()
        self._note(f"append of {first} to {number - 1} is at {[str(each.first_entry) for each in done.result()]}")

    # Cursors

    async def _subscribe(self, topic: mledger.ManagedLedger, name: str, initial: str) -> None:
        truncating = list(self._known.truncating)
        cursor = await topic.open_cursor(name, initial=initial)  # type: ignore[arg-type]
        if self._known.cursors.get(name) is None:
            self._known.cursors[name] = known = KnownCursor(_state(cursor))
            for through in (*truncating, *self._known.truncating):
                known.ask_up_to(through)
        self._note(f"cursor {name} at {cursor.mark_delete}, {len(cursor.holes)} holes, backlog {cursor.backlog}")

    def _acknowledge(self, topic: mledger.ManagedLedger, name: str, step: Step) -> None:
        cursor, known, there = topic.open_cursors.get(name), self._known.cursors.get(name), self._known.positions
        if cursor is None or known is None or not there:
            return
        if step.what == "acknowledge":
            chosen = [there[(step.number * 7 + each * 3) % len(there)] for each in range(1 + step.number % 3)]
            chosen = [position for position in chosen if position <= topic.last_confirmed]
            future = cursor.acknowledge(chosen)
            known.ask(chosen)
        else:
            (last,) = (there[(step.number * 5) % len(there)],)
            if not cursor.mark_delete < last <= topic.last_confirmed:
                return
            future = cursor.acknowledge_cumulative(last)
            chosen = [last]
            known.ask_up_to(last)
        resets, counts = known.resets, name not in self._resetting
        self._waiting.add(future)  # type: ignore[arg-type]

        def durable(done: "asyncio.Future[None]") -> None:
            self._waiting.discard(done)  # type: ignore[arg-type]
            if done.cancelled() or done.exception() is not None:
                return
            for position in chosen if counts and resets == known.resets else ():
                if step.what == "acknowledge":
                    known.durable.add_run(position.ledger_id, position.entry_id, position.entry_id)
                else:
                    known.durable.add_up_to(*position)
            self._note(f"cursor {name}: {step.what} {', '.join(map(str, chosen))} is durable")

        future.add_done_callback(durable)

    async def _reset(self, topic: mledger.ManagedLedger, name: str, step: Step) -> None:
        cursor, known, there = topic.open_cursors.get(name), self._known.cursors.get(name), self._known.positions
        if cursor is None or known is None or not there or name in self._resetting:
            return
        to: mledger.Position | str = "earliest" if step.number % 8 == 0 else there[(step.number * 7) % len(there)]
        if isinstance(to, mledger.Position) and to > topic.last_confirmed:
            return
        mark = (to.ledger_id, to.entry_id - 1) if isinstance(to, mledger.Position) else (-1, -1)
        number, first = known.ask_reset(mark, self._known.truncating), None
        self._resetting.add(name)
        try:
            await cursor.reset(to)
            first = topic.ledgers[0].ledger_id
            self._note(f"cursor {name}: reset to {to} is durable, at {cursor.mark_delete}")
        finally:
            self._resetting.discard(name)
            known.end_reset(number, mark, first)

    async def _truncate(self, topic: mledger.ManagedLedger) -> None:
        through = topic.last_confirmed
        asked = [(known, known.resets) for name, known in self._known.cursors.items() if name not in self._resetting]
        for known in self._known.cursors.values():
            known.ask_up_to(through)
        self._known.truncating.append(through)
        try:
            plan = await topic.truncate(through=through)
        finally:
            self._known.truncating.remove(through)
        for known, resets in asked:
            if known.resets == resets:
                known.durable.add_up_to(*through)
        self._note(f"truncated through {through}: {[ledger.ledger_id for ledger in plan.deletions]}")


def _settled(topic: mledger.ManagedLedger, name: str) -> bool:
    """Whether a cursor is recovered, and everything that it has acknowledged is durable."""
    cursor = topic.open_cursors.get(name)
    return cursor is not None and not cursor.is_failing and cursor.behind_s == 0


def _state(cursor: mledger.Cursor) -> Acknowledged:
    return acknowledged_of(cursor.mark_delete, [(hole.lower, hole.upper) for hole in cursor.holes])


def _raise(error: BaseException) -> None:
    raise error


async def judge_topic(cluster: SimCluster, config: mledger.ManagedLedgerConfig) -> None:
    """Open the topic once more, and compare it with what its owners know. Violated, MledgerError."""
    known = cluster.topic
    async with mledger.open_cluster("sim://", config=config, client=CLIENT, session_timeout=SESSION_S) as opened:
        consumed = [cursor.consumed for name, cursor in known.cursors.items() if name not in known.dropped]
        consumed += await _unknown_cursors(cluster, opened)
        topic = await opened.open_topic(TOPIC, create=True, take_over=True)
        await topic.initialized()
        ledgers = [(ledger.ledger_id, ledger.entries) for ledger in topic.ledgers if ledger.entries]
        cluster.note("judge", f"ledgers {ledgers}, cursors {topic.cursors}")
        if known.terminated != topic.terminated and known.terminated is not None:
            raise Violated(f"the topic was terminated at {known.terminated}, and ends at {topic.terminated}")
        violations = []
        for name, expected in known.cursors.items():
            if name in known.dropped:
                continue
            cursor = await topic.open_cursor(name, create=False)
            found = RecoveredCursor(_state(cursor), cursor.backlog)
            violations += check_cursor(name, expected.issued, expected.durable, found, ledgers)
            read: list[tuple[int, int]] = []
            while page := await cursor.read(100):
                read += [(entry.position.ledger_id, entry.position.entry_id) for entry in page]
            violations += check_delivery(name, found, read, ledgers)
        rows = []
        for ledger_id, count in ledgers:
            last = mledger.Position(ledger_id, count - 1)
            for entry in await topic.read(mledger.Position(ledger_id, 0), count, None, last):
                epoch, number = entry.payload.split()
                rows.append((*entry.position, int(epoch), int(number)))
        violations += check_topic(known.given, RecoveredTopic(ledgers, FoundEntries.of(rows), consumed))
        if cluster.limits.request_bytes:
            await topic.trim()
        listed = [ledger.ledger_id for ledger in topic.ledgers]
        await topic.close()
        cursors = await opened.inspector.cursors(TOPIC)
        named = {*listed, *(cursor.record.cursors_ledger_id for cursor in cursors)} - {NO_CURSOR_LEDGER}
        existing = {ledger async for page in LedgerStoreReader(opened.metadata).list() for ledger in page}
        left = [
            f"{folder}/{name}" for folder in (PENDING, DELETIONS) for name in await opened.metadata.children(folder)
        ]
        violations += check_ledgers(named, existing)
    if violations or left:
        raise Violated("; ".join([*map(str, violations), *(f"record {path} is left" for path in left)]))


async def _unknown_cursors(cluster: SimCluster, opened: mledger.Cluster) -> list[Acknowledged]:
    """Where cursors stand that exist, though nobody was told so: an answer was lost. They hold their ledgers too."""
    store, path, found = opened.metadata, managed_ledger_path(MANAGED_LEDGER), []
    await store.sync()
    for child in await store.children(path) if await store.exists(path) else ():
        name = cursor_name(child)
        if name in cluster.topic.cursors or name in cluster.topic.dropped:
            continue
        record = decode_managed_cursor_info((await store.get(f"{path}/{child}")).data, child).value
        if record.cursors_ledger_id == NO_CURSOR_LEDGER and record.mark_delete is not None:
            found.append(acknowledged_of(record.mark_delete, []))
    return found
