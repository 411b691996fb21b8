"""The simulated cluster: bookies that are started again when they end, and clients with sessions of their own."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

import mledger.bookie.server.process.main as main
import mledger.bookie.server.serving.group_commit as group_commit
from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.plans.quorum import write_set
from mledger.bookie.errors import DiskFull, InvalidBookieDirectory
from mledger.bookie.server.process.bookie import BookieConfig
from mledger.bookie.server.process.options import BookieOptions
from mledger.bookie.server.storage.directories.disk import DiskLimits
from mledger.bookie.server.storage.directories.journal_files import RESERVE
from mledger.bookie.server.storage.journal import JournalPosition
from mledger.bookie.server.storage.records.journal_changes import JournalChange
from mledger.bookie.server.storage.rows.index_options import IndexConfig
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.records.codec import encode_managed_ledger_info
from mledger.metastore.records.ledger_codec import decode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState
from mledger.metastore.records.paths import ledger_path, managed_ledger_path
from mledger.metastore.records.values import ManagedLedgerInfo
from tests.sim.checks import Knowledge, check_end, check_ledgers_kept, check_live, check_rows
from tests.sim.history import History
from tests.sim.schedule import Limits
from tests.sim.seams import World
from tests.sim.system.loop import Killed, Process
from tests.sim.system.rows import counted, held, unreadable
from tests.sim.topic_knowledge import KnownTopic

SESSION_S = 1.5
PORT = 3181
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
MANAGED_LEDGER = "public/default/persistent/t"
_NOTE_BYTES = 3000


def options(host: str, limits: Limits) -> BookieOptions:
    """How a simulated bookie is configured."""
    return BookieOptions(
        metadata="sim://",
        directory=f"/{host}/data",
        host=host,
        announced=host,
        port=PORT,
        bookie_id=host,
        session_timeout=SESSION_S,
        garbage_interval=limits.garbage_s,
        garbage_grace=limits.grace_s,
        overreplicated_interval=limits.overreplicated_s,
        disk=DiskLimits(min_free_bytes=1 << 16, look_s=0.5),
        storage=STORAGE,
    )


class Machine:
    """A host with a bookie, which is started again whenever it ends."""

    def __init__(self, cluster: "SimCluster", host: str) -> None:
        self.cluster, self.host = cluster, host
        self.disk = cluster.world.system.add_disk(host)
        self.disk.capacity = CAPACITY
        self.process: Process | None = None
        self.starts = 0
        self.start_at = 0.0
        """Not before this simulated time is it started again."""
        self.power_lost = False
        self.moves_left = 0
        """After so many moves of rows the bookie is killed; 0: never."""
        self.gone = False
        """Whether it is frozen for good."""
        self.had_reserve = False
        """Whether it had had the time and the room to keep its reserves when its disk became full, and has not used the
        journal's since: once that file is full too, there is no room to start with."""
        self.kept_reserve = False
        """Whether the journal's reserve was there when the disk became full."""
        self.bookie: main.BookieProcess | None = None
        self.started_at = 0.0
        self.wrote: set[int] = set()
        """Ledgers that it changed since it started."""

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
        self.disk.went_bad, self.started_at = False, world.loop.now
        self.wrote.clear()
        self.cluster.note(self.host, "starts")
        world.loop.start(process, lambda: self._serve(process))

    async def _serve(self, process: Process) -> None:
        world = self.cluster.world
        try:
            self.bookie = main.BookieProcess(options(self.host, self.cluster.limits))
            await self.bookie.run()
        except Exception as error:
            if process.alive and not world.loop.ended:
                self.cluster.note(self.host, f"ends: {type(error).__name__}: {error}")
                self.cluster.check(check_end, self.host, error, self._explained(error))
                world.loop.kill(process)

    def _explained(self, error: Exception) -> bool:
        """Whether a fault explains that a bookie ends by an error that it tells."""
        if isinstance(error, DiskFull):
            return not self.had_reserve
        return isinstance(error, InvalidBookieDirectory) and (self.disk.went_bad or self.disk.unmounted)

    def _died(self, process: Process) -> None:
        world = self.cluster.world
        power, self.power_lost = self.power_lost, False
        self.disk.fuse = None
        if self.kept_reserve and not self.has_reserve:
            self.had_reserve = False
        self.cluster.note(self.host, "is gone" + (", without power" if power else ""))
        world.network.process_died(process, power=power)
        if power:
            self.disk.lose_power()
        world.loop.later_as(world.loop.world, START_AGAIN_S, self.start)

    @property
    def has_reserve(self) -> bool:
        """Whether its disk has the journal's reserve."""
        return f"/{self.host}/data/journal/{RESERVE}" in self.disk.names

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


class SimCluster:
    """Bookies, metadata servers, and what is known of what they hold."""

    def __init__(self, world: World, hosts: Iterable[str], limits: Limits) -> None:
        self.limits = limits
        self.quiet = False
        """Whether faults have stopped."""
        self.world = world
        self.history = History()
        self.knowledge = Knowledge()
        self.machines = {host: Machine(self, host) for host in hosts}
        self.topic = KnownTopic()
        self.violation: BaseException | None = None
        self._decoded: dict[bytes, LedgerMetadata] = {}

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
        if self.limits.compressed:
            info = ManagedLedgerInfo(properties=(("note", "." * _NOTE_BYTES),))
            await store.create(
                managed_ledger_path(MANAGED_LEDGER), encode_managed_ledger_info(info, compression="LZ4"), parents=True
            )
        self.world.metadata.request_bytes = self.limits.request_bytes
        self.world.metadata.catch_up()
        for machine in self.machines.values():
            machine.start()
        while len(await store.children("/ledgers/available")) < 1 + len(self.machines):
            await asyncio.sleep(0.001)
        await store.close()

    def stored(self, index: object, changes: list[JournalChange], place: JournalPosition) -> None:
        """A bookie enters synced changes in its index."""
        name = self.world.loop.current.name
        machine = self.machines[name]
        self.knowledge.stored(name, changes)
        machine.wrote.update(change.ledger for change in changes)
        _enter(index, changes, place)  # type: ignore[arg-type]
        if machine.moves_left and changes[0].source is not None:
            machine.moves_left -= 1
            if not machine.moves_left:
                self.note(name, "is killed after a move")
                machine.end(power=False, away_s=0.0)
                raise Killed

    def ensemble_of(self, ledger: int, entry: int) -> tuple[str, ...] | None:
        """The bookies that the metadata names for an entry now; None if the ledger is deleted."""
        metadata = self._metadata_of(ledger)
        return None if metadata is None else metadata.segment_at(entry).bookies

    def _metadata_of(self, ledger: int) -> LedgerMetadata | None:
        path = ledger_path(ledger)
        node = self.world.metadata.leader.node(path)
        if node is None:
            return None
        found = self._decoded.get(node.data)
        if found is None:
            found = self._decoded[node.data] = decode_ledger_metadata(node.data, path)
        return found

    def check_bookies(self) -> None:
        """Check what running bookies keep, at the end."""
        for machine in self.machines.values():
            if machine.gone or machine.bookie is None or not machine.serves:
                continue
            turns, host = machine.bookie._bookie.turns, machine.host
            index = turns._index
            self.check(check_rows, host, list(unreadable(index, machine.disk, f"/{host}/data/journal")))
            self.check(self.knowledge.kept, host, partial(self._needs, host), held(index))
            kept = len(turns.ledgers._states)
            self.check(check_ledgers_kept, host, kept, self.limits.most_ledgers + len(machine.wrote))
            self.check(check_live, host, index.live, counted(index))

    def _needs(self, host: str, ledger: int, entry: int) -> bool:
        """Whether the metadata names a bookie for an entry of a closed ledger."""
        metadata = self._metadata_of(ledger)
        if metadata is None:
            return False
        closed = metadata.state is LedgerState.CLOSED and entry <= metadata.last_entry
        bookies = metadata.segment_at(entry).bookies
        return closed and host in [bookies[at] for at in write_set(entry, len(bookies), metadata.write_quorum)]


_enter = group_commit.enter
