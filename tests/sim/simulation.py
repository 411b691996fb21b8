"""Runs one schedule, and says what it found."""

import asyncio
import itertools
import traceback
from dataclasses import dataclass
from typing import Any

import mledger.bookie.server.serving.group_commit as group_commit
from mledger.bookie.client.client import BookKeeper
from mledger.metastore.errors import MledgerError
from mledger.metastore.renewed_store import RenewedStore
from mledger.metastore.store import MetadataStore
from tests.sim.checks import Violated
from tests.sim.cluster import CLIENT, SESSION_S, SimCluster
from tests.sim.faults import Faults
from tests.sim.history import History
from tests.sim.ledger_clients import LedgerClient, recover
from tests.sim.schedule import BOOKIES, SPAN_S, Schedule, Step
from tests.sim.seams import World, simulated
from tests.sim.topic_owners import TopicOwner, judge_topic

SETTLE_S = 120.0
"""Within this simulated time after faults have stopped, every request must have ended."""
TRIES = 40
_AGAIN_S = 0.5


@dataclass(frozen=True)
class SimulationResult:
    """What came of one simulation. `violation` is empty if everything held."""

    schedule: Schedule
    history: History
    violation: str
    steps: int
    simulated_s: float


def simulate(schedule: Schedule) -> SimulationResult:
    """Run a schedule."""
    world = World(schedule.seed)
    with simulated(world, schedule.limits):
        cluster = SimCluster(world, BOOKIES[: schedule.bookies], schedule.limits)
        before: Any = group_commit.enter
        group_commit.enter = cluster.stored
        try:
            violation = _Run(cluster, schedule).run()
        finally:
            group_commit.enter = before
    return SimulationResult(schedule, cluster.history, violation, world.loop.steps, world.loop.now)


class _Run:
    def __init__(self, cluster: SimCluster, schedule: Schedule) -> None:
        self._cluster, self._schedule, self._loop = cluster, schedule, cluster.world.loop
        self._faults = Faults(cluster)
        self._clients: list[LedgerClient | TopicOwner] = []
        self._judged = False

    def run(self) -> str:
        """Run to the end; what was violated."""
        try:
            self._phases()
        except Violated as error:
            return str(error)
        for process, error in self._loop.errors:
            if not isinstance(error, Violated | MledgerError | asyncio.CancelledError):
                lines = traceback.format_exception(error)
                return f"{process}: {type(error).__name__}: {error}\n{''.join(lines[-6:])}"
        return ""

    def _phases(self) -> None:
        self._begin()
        self._until(lambda: self._loop.now >= self._began + SPAN_S or self._clients_done, SPAN_S + 1.0)
        self._faults.stop()
        if not self._until(lambda: self._clients_done, SETTLE_S):
            waiting = ", ".join(client.name for client in self._clients if not client.done)
            raise Violated(f"requests of {waiting} did not end within {SETTLE_S:g} s after faults stopped")
        machines = [machine for machine in self._cluster.machines.values() if not machine.gone]
        if not self._until(lambda: all(machine.serves for machine in machines), SETTLE_S):
            down = ", ".join(machine.host for machine in machines if not machine.serves)
            raise Violated(f"{down} did not serve within {SETTLE_S:g} s after faults stopped")
        judge = self._loop.process("judge")
        self._loop.start(judge, self._judge_topic if self._schedule.topics else self._judge)
        if not self._until(lambda: self._judged, SETTLE_S):
            raise Violated(f"what was written could not be read within {SETTLE_S:g} s after faults stopped")
        self._cluster.check_bookies()
        if self._cluster.violation is not None:
            raise self._cluster.violation

    def _begin(self) -> None:
        begun = False

        async def begin() -> None:
            nonlocal begun
            await self._cluster.begin()
            begun = True

        self._loop.start(self._loop.world, begin)
        self._until(lambda: begun, 30.0)
        if not begun:
            raise Violated("the cluster did not start")
        self._began = self._loop.now
        plans: dict[str, list[Step]] = {}
        for step in self._schedule.steps:
            moved = Step(step.at + self._began, step.who, step.what, step.number, step.seconds)
            if step.who in self._cluster.machines or step.what in _METADATA:
                self._loop.later_as(self._loop.world, step.at, self._faults.begin, moved)
            else:
                plans.setdefault(step.who, []).append(moved)
        kind = TopicOwner if self._schedule.topics else LedgerClient
        self._clients = [kind(self._cluster, who, steps, self._schedule.ensemble) for who, steps in plans.items()]
        for client in self._clients:
            client.start()

    @property
    def _clients_done(self) -> bool:
        return all(client.done for client in self._clients)

    def _until(self, done: Any, within_s: float) -> bool:
        cluster = self._cluster
        ended = self._loop.run_until(lambda: cluster.violation is not None or done(), self._loop.now + within_s)
        if cluster.violation is not None:
            raise cluster.violation
        return ended

    async def _judge_topic(self) -> None:
        """Compare the topic with what its owners know."""
        config = next(owner.config for owner in self._clients if isinstance(owner, TopicOwner))
        for attempt in itertools.count(1):
            try:
                await judge_topic(self._cluster, config)
                break
            except Violated as error:
                self._cluster.violation = error
                return
            except MledgerError as error:
                self._cluster.note("judge", f"{type(error).__name__}: {error}")
                if attempt == TRIES:
                    self._cluster.violation = Violated(f"the topic cannot be read: {error}")
                    return
                await asyncio.sleep(_AGAIN_S)
        self._judged = True

    async def _judge(self) -> None:
        """Read everything that was ever acknowledged."""

        async def open_session() -> MetadataStore:
            return await self._cluster.world.metadata.open(self._loop.current, SESSION_S)

        async with RenewedStore(await open_session(), open_session, SESSION_S) as store:
            client = BookKeeper(store, CLIENT)
            for ledger in list(self._cluster.knowledge.ledgers.values()):
                if ledger.deleted:
                    continue
                for attempt in itertools.count(1):
                    try:
                        await recover(self._cluster, "judge", client, ledger)
                        break
                    except MledgerError as error:
                        self._cluster.note("judge", f"ledger {ledger.ledger}: {type(error).__name__}: {error}")
                        if attempt == TRIES:
                            lost = Violated(f"ledger {ledger.ledger} cannot be read: {error}")
                            self._cluster.violation = lost
                            return
                        await asyncio.sleep(_AGAIN_S)
            await client.close()
        self._judged = True


_METADATA = (
    "part",
    "lag",
    "lose before",
    "lose after",
    "lose after, away",
    "client session expires",
    "client away",
)
