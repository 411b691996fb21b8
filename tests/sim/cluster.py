"""The simulated cluster: bookies that are started again when they end, and clients with sessions of their own."""

import asyncio
from collections.abc import Callable, Iterable

import mledger.bookie.server.process.main as main
import mledger.bookie.server.serving.group_commit as group_commit
from mledger.bookie.client.config import ClientConfig
from mledger.bookie.server.process.bookie import BookieConfig
from mledger.bookie.server.process.options import BookieOptions
from mledger.bookie.server.storage.disk import DiskLimits
from mledger.bookie.server.storage.index import IndexConfig
from mledger.bookie.server.storage.journal import JournalPosition
from mledger.bookie.server.storage.journal_changes import JournalChange
from mledger.metastore.cluster.layout import initialize
from tests.sim.checks import Knowledge
from tests.sim.history import History
from tests.sim.loop import Process
from tests.sim.seams import World
from tests.sim.topic_knowledge import KnownTopic

SESSION_S = 1.5
PORT = 3181
GRACE_S = 1.0
GARBAGE_S = 0.7
START_AGAIN_S = 0.3
CLIENT = ClientConfig(
    add_timeout_s=1.0,
    stall_timeout_s=0.5,
    read_timeout_s=0.8,
    speculative_read_s=0.2,
    silence_timeout_s=0.8,
    connect_timeout_s=0.5,
    replace_retry_s=0.2,
    quarantine_s=1.0,
    metadata_timeout_s=10.0,
)
STORAGE = BookieConfig(journal_file_bytes=1 << 16, index=IndexConfig(memtable_bytes=1 << 16, memtables=1))
CAPACITY = 64 << 20


def options(host: str) -> BookieOptions:
    """How a simulated bookie is configured."""
    return BookieOptions(
        metadata="sim://",
        directory=f"/{host}/data",
        host=host,
        announced=host,
        port=PORT,
        bookie_id=host,
        session_timeout=SESSION_S,
        garbage_interval=GARBAGE_S,
        garbage_grace=GRACE_S,
        overreplicated_interval=0.0,
        disk=DiskLimits(min_free_bytes=1 << 16, look_s=0.5),
        storage=STORAGE,
    )


class Machine:
    """A host with a bookie, which is started again whenever it ends."""

    def __init__(self, cluster: "Cluster", host: str) -> None:
        self.cluster, self.host = cluster, host
        self.disk = cluster.world.system.add_disk(host)
        self.disk.capacity = CAPACITY
        self.process: Process | None = None
        self.starts = 0
        self.start_at = 0.0
        """Not before this simulated time is it started again."""
        self.power_lost = False

    def start(self) -> None:
        """Start the bookie, unless it runs."""
        world = self.cluster.world
        if self.process is not None and self.process.alive:
            return
        if world.loop.now < self.start_at:
            world.loop.later_as(world.loop.world, self.start_at - world.loop.now, self.start)
            return
        self.starts += 1
        world.network.host_is_back(self.host)
        process = self.process = world.loop.process(self.host)
        process.rng.seed(f"{world.seed}/{self.host}/{self.starts}")
        process.on_death.append(lambda: self._died(process))
        self.cluster.note(self.host, "starts")
        world.loop.start(process, lambda: self._serve(process))

    async def _serve(self, process: Process) -> None:
        world = self.cluster.world
        try:
            await main.BookieProcess(options(self.host)).run()
        except Exception as error:
            if process.alive and not world.loop.ended:
                self.cluster.note(self.host, f"ends: {type(error).__name__}: {error}")
                world.loop.kill(process)

    def _died(self, process: Process) -> None:
        world = self.cluster.world
        power, self.power_lost = self.power_lost, False
        self.disk.fuse = None
        self.cluster.note(self.host, "is gone" + (", without power" if power else ""))
        world.network.process_died(process, power=power)
        if power:
            self.disk.lose_power()
        world.loop.later_as(world.loop.world, START_AGAIN_S, self.start)

    @property
    def serves(self) -> bool:
        """Whether its bookie takes connections."""
        listener = self.cluster.world.network.listeners.get((self.host, PORT))
        return listener is not None and listener.process.alive and listener.factory is not None

    def end(self, *, power: bool, away_s: float) -> None:
        """End the bookie at once; it stays away for so long."""
        self.start_at = self.cluster.world.loop.now + away_s
        if self.process is not None and self.process.alive:
            self.power_lost = power
            self.cluster.world.loop.kill(self.process)


class Cluster:
    """Bookies, metadata servers, and what is known of what they hold."""

    def __init__(self, world: World, hosts: Iterable[str]) -> None:
        self.world = world
        self.history = History()
        self.knowledge = Knowledge()
        self.machines = {host: Machine(self, host) for host in hosts}
        self.topic = KnownTopic()
        self.violation: BaseException | None = None

    def note(self, who: str, what: str) -> None:
        """Add a line to the history."""
        self.history.note(self.world.loop.now, who, what)

    def check(self, check: Callable[..., None], *args: object) -> None:
        """Run a check; what it finds ends the simulation."""
        try:
            check(*args)
        except AssertionError as error:
            self.note("CHECK", str(error))
            self.violation = self.violation or error

    async def begin(self) -> None:
        """Initialise the cluster, and start its bookies."""
        store = await self.world.metadata.open(self.world.loop.current, SESSION_S)
        await initialize(store)
        self.world.metadata.catch_up()
        for machine in self.machines.values():
            machine.start()
        while len(await store.children("/ledgers/available")) < 1 + len(self.machines):
            await asyncio.sleep(0.001)
        await store.close()

    def stored(self, index: object, changes: list[JournalChange], place: JournalPosition) -> None:
        """A bookie enters synced changes in its index."""
        self.knowledge.stored(self.world.loop.current.name, changes)
        _enter(index, changes, place)  # type: ignore[arg-type]


_enter = group_commit.enter
