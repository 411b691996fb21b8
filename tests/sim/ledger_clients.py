"""Clients that write, recover, look at and delete ledgers as a schedule says, and check what they are told."""

import asyncio
from collections.abc import Sequence

from mledger.bookie.client.client import BookKeeper
from mledger.bookie.client.ledgers.reader import LedgerReader
from mledger.bookie.client.ledgers.writer import LedgerWriter
from mledger.bookie.errors import BookieError, NoSuchLedger
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.ledger_metadata import LedgerState
from mledger.metastore.renewed_store import RenewedStore
from mledger.metastore.store import MetadataStore
from tests.sim.checks import LedgerKnowledge, Violated
from tests.sim.cluster import CLIENT, SESSION_S, SimCluster
from tests.sim.mover import move_fragment
from tests.sim.schedule import Step
from tests.sim.system.loop import Process

_CREATIONS = 5
_WRITING = ("create", "append", "close", "wait", "die")
_READS = 40
_LOOK_S = 0.1


class LedgerClient:
    """A process with a session and a BookKeeper client, which takes its steps one after another."""

    def __init__(self, cluster: SimCluster, name: str, steps: Sequence[Step], sizes: tuple[int, int, int]) -> None:
        self._cluster, self.name, self._steps, self._sizes = cluster, name, steps, sizes
        self.process: Process = cluster.world.loop.process(name)
        self._waiting: set[asyncio.Future[object]] = set()
        self.ended = False
        self.process.on_death.append(self._died)
        self._writer: LedgerWriter | None = None
        self._ledger: LedgerKnowledge | None = None
        self._held: list[tuple[LedgerKnowledge, LedgerReader]] = []

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
        try:
            async with await self._open_store() as store:
                client = BookKeeper(store, CLIENT)
                for step in self._steps:
                    await asyncio.sleep(step.at - self._cluster.world.loop.now)
                    await self._take(store, client, step)
                if self._waiting:
                    await asyncio.wait(list(self._waiting))
                await self._read_held()
                await client.close()
        except AssertionError as error:
            self._cluster.check(_raise, error)
        except Exception as error:
            self._cluster.check(_raise, Violated(f"{self.name}: {type(error).__name__}: {error}"))
        self.ended = True

    async def _open_store(self) -> MetadataStore:
        async def open_session() -> MetadataStore:
            world = self._cluster.world
            return await world.metadata.open(self.process, SESSION_S)

        while True:
            try:
                return RenewedStore(await open_session(), open_session, SESSION_S)
            except MledgerError as error:
                self._note(f"no session: {error}")

    async def _take(self, store: MetadataStore, client: BookKeeper, step: Step) -> None:
        try:
            if step.what in _WRITING:
                await self._take_writing(client, step)
            elif step.what == "move":
                await self._move(store, client, step)
            elif step.what == "read again":
                if self._held:
                    await self._read_again(*self._held[step.number % len(self._held)])
            else:
                take = {
                    "recover": self._recover,
                    "look": self._look,
                    "delete": self._delete,
                    "hold": self._hold,
                }.get(step.what)
                if take is not None:
                    await take(client, step.number)
        except (MledgerError, OSError) as error:
            self._note(f"{step.what} failed: {type(error).__name__}: {error}")

    async def _take_writing(self, client: BookKeeper, step: Step) -> None:
        match step.what:
            case "create":
                await self._create(client)
            case "append":
                self._append(step.number, int(step.seconds))
            case "close":
                await self._close()
            case "wait" if self._waiting:
                await asyncio.wait(list(self._waiting))
            case "die":
                self._note("dies")
                self._cluster.world.loop.kill(self.process)
                await asyncio.sleep(1000)

    def _note(self, what: str) -> None:
        self._cluster.note(self.name, what)

    # Writing

    async def _create(self, client: BookKeeper) -> None:
        self._writer = self._ledger = None
        for attempt in range(_CREATIONS):
            try:
                self._writer = await client.create_ledger(*self._sizes)
                break
            except MledgerError as error:
                self._note(f"create failed: {type(error).__name__}: {error}")
                if attempt == _CREATIONS - 1:
                    return
                await asyncio.sleep(0.1)
        assert self._writer is not None
        self._ledger = self._cluster.knowledge.ledger(self._writer.ledger_id, self._sizes[2])
        self._note(f"created ledger {self._writer.ledger_id} on {', '.join(self._writer.metadata.ensemble)}")

    def _append(self, count: int, size: int) -> None:
        ledger, writer = self._ledger, self._writer
        if ledger is None or writer is None:
            return
        first = len(ledger.asked)
        batch = [b"%d:%d " % (ledger.ledger, entry) + b"." * size for entry in range(first, first + count)]
        try:
            future = writer.append(batch)
        except MledgerError as error:
            self._note(f"append refused: {error}")
            return
        if not future.done() or future.exception() is None:
            ledger.asked.update(enumerate(batch, first))
        self._waiting.add(future)  # type: ignore[arg-type]
        future.add_done_callback(lambda done: self._appended(ledger, first, count, done))

    def _appended(self, ledger: LedgerKnowledge, first: int, count: int, done: "asyncio.Future[int]") -> None:
        self._waiting.discard(done)  # type: ignore[arg-type]
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._note(f"ledger {ledger.ledger}: append of {first}+{count} failed: {type(error).__name__}: {error}")
            if not isinstance(error, MledgerError):
                self._cluster.check(_raise, error)
            return
        self._note(f"ledger {ledger.ledger}: {first} to {first + count - 1} acknowledged")
        if done.result() != first:
            self._cluster.check(
                _raise, Violated(f"ledger {ledger.ledger}: {first} was acknowledged as {done.result()}")
            )
        self._cluster.check(self._cluster.knowledge.acknowledge, ledger, first, count)
        for entry in range(first, first + count):
            ensemble = self._cluster.ensemble_of(ledger.ledger, entry)
            self._cluster.check(self._cluster.knowledge.recorded, ledger, entry, ensemble)

    async def _close(self) -> None:
        ledger, writer = self._ledger, self._writer
        if ledger is None or writer is None:
            return
        metadata = await writer.close()
        self._note(f"closed ledger {ledger.ledger} at {metadata.last_entry}")
        self._cluster.check(self._cluster.knowledge.closed, ledger, metadata.last_entry)

    # Reading

    def _chosen(self, number: int) -> LedgerKnowledge | None:
        known = [ledger for ledger in self._cluster.knowledge.ledgers.values() if not ledger.deleted]
        return known[number % len(known)] if known else None

    async def _recover(self, client: BookKeeper, number: int) -> None:
        ledger = self._chosen(number)
        if ledger is not None:
            await recover(self._cluster, self.name, client, ledger)

    async def _look(self, client: BookKeeper, number: int) -> None:
        ledger = self._chosen(number)
        if ledger is None:
            return
        reader = await client.open_ledger_no_recovery(ledger.ledger)
        last = reader.last_entry
        self._note(f"ledger {ledger.ledger}: confirmed up to {last}")
        if reader.metadata.state is not LedgerState.CLOSED:
            self._cluster.check(self._cluster.knowledge.confirmed, ledger, last)
        if last >= 0 and not ledger.deleted:
            entries = await reader.read(0, last)
            self._cluster.check(self._cluster.knowledge.read, ledger, 0, entries)

    async def _hold(self, client: BookKeeper, number: int) -> None:
        ledger = self._chosen(number)
        if ledger is not None:
            reader = await client.open_ledger(ledger.ledger)
            self._cluster.check(self._cluster.knowledge.closed, ledger, reader.last_entry)
            self._held.append((ledger, reader))
            self._note(f"holds a reader of ledger {ledger.ledger}")

    async def _read_again(self, ledger: LedgerKnowledge, reader: LedgerReader) -> None:
        if reader.last_entry >= 0 and not ledger.deleted:
            entries = await reader.read(0, reader.last_entry)
            self._cluster.check(self._cluster.knowledge.read, ledger, 0, entries)
            self._note(f"ledger {ledger.ledger}: {len(entries)} entries read again")

    async def _read_held(self) -> None:
        """Readers that were opened once must be able to read when everything is quiet."""
        while self._held and not self._cluster.quiet:
            await asyncio.sleep(_LOOK_S)
        for ledger, reader in self._held:
            for left in reversed(range(_READS)):
                try:
                    await self._read_again(ledger, reader)
                    break
                except MledgerError as error:
                    self._note(f"ledger {ledger.ledger} cannot be read again: {type(error).__name__}: {error}")
                    if not left and not ledger.deleted:
                        raise Violated(f"a reader of ledger {ledger.ledger} that is open cannot read it") from None
                    await asyncio.sleep(_LOOK_S * 5)

    async def _move(self, store: MetadataStore, client: BookKeeper, step: Step) -> None:
        ledger = self._chosen(step.number)
        if ledger is not None:
            what = await move_fragment(store, client, ledger.ledger, tuple(self._cluster.machines), step.seconds)
            self._note(f"ledger {ledger.ledger}: {what}")

    async def _delete(self, client: BookKeeper, number: int) -> None:
        ledger = self._chosen(number)
        if ledger is not None:
            ledger.deleted = True
            self._note(f"deletes ledger {ledger.ledger}")
            await client.delete_ledger(ledger.ledger)


async def recover(cluster: SimCluster, who: str, client: BookKeeper, ledger: LedgerKnowledge) -> None:
    """Recover a ledger and read all of it."""
    try:
        reader = await client.open_ledger(ledger.ledger)
    except NoSuchLedger:
        if not ledger.deleted:
            raise
        return
    last = reader.last_entry
    cluster.note(who, f"recovered ledger {ledger.ledger}: it ends at {last}")
    cluster.check(cluster.knowledge.closed, ledger, last)
    if last >= 0:
        try:
            entries = await reader.read(0, last)
        except BookieError:
            if ledger.deleted:
                return
            raise
        cluster.check(cluster.knowledge.read, ledger, 0, entries)


def _raise(error: BaseException) -> None:
    raise error
