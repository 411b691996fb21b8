"""Where the product meets the system, replaced for the time of one simulation.

Every module of a bookie that names `os` gets the simulated system in its place; so do threads, RocksDB, clocks and
chance. The product's code itself runs as it is.
"""

import contextlib
import random
import secrets
import sys
import time
import uuid
from asyncio import tasks
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import cache
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any

import mledger.bookie.client.client as client
import mledger.bookie.server.process.bookie as bookie
import mledger.bookie.server.process.cookie_check as cookie_check
import mledger.bookie.server.process.main as main
import mledger.bookie.server.serving.cold_reads as cold_reads
import mledger.bookie.server.serving.group_commit as group_commit
import mledger.bookie.server.serving.index_flushes as index_flushes
import mledger.bookie.server.storage.directories.directory as directory
import mledger.bookie.server.storage.directories.directory_parts as directory_parts
import mledger.bookie.server.storage.directories.journal_files as journal_files
import mledger.bookie.server.storage.ledgers as ledgers
import mledger.bookie.server.storage.rows.index as index
import mledger.cluster as cluster
import mledger.cursors.container as container
import mledger.cursors.persistence.cursor_persistence as persistence
import mledger.ledgers.orphans.pending_records as pending_records
import mledger.ledgers.ownership as ownership
import mledger.metastore.batched_store as batched_store
import mledger.metastore.memory.tree as tree
import mledger.metastore.runtime.durable_files as durable_files
from mledger.bookie.server.storage.journal_thread import JournalThread
from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.logs.loggers import EventLogger
from tests.sim.schedule import Limits
from tests.sim.system import rows
from tests.sim.system.disk import SimSystem
from tests.sim.system.files import ZEROS
from tests.sim.system.loop import EPOCH_S, Killed, SimLoop
from tests.sim.system.metadata import SimEnsemble
from tests.sim.system.network import Network

_SYNC_S = 0.0004
real_time = time.perf_counter
"""The machine's own clock."""
cpu_time = time.process_time


class SimPool:
    """A thread pool: what is submitted is done when its result is asked for, or at once."""

    def __init__(self, *_: object, **__: object) -> None:
        self._closed = False

    def submit(self, work: Callable[..., Any], *args: Any) -> "Future[Any]":
        """Do the work now."""
        done: Future[Any] = Future()
        try:
            done.set_result(work(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing is left to do."""


class _Work:
    """The journal thread's queue: each piece of work is carried out at a moment of its own, one after another."""

    def __init__(self, thread: "SimJournalThread") -> None:
        self._thread = thread

    def put(self, work: Callable[[], None] | None) -> None:
        """Carry it out after what was put before."""
        if work is not None:
            self._thread.schedule(work)


class SimJournalThread(JournalThread):
    """Carries out the work of the journal's thread on the simulated loop."""

    sim: SimLoop

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._process = self.sim.current
        self._work = _Work(self)  # type: ignore[assignment]
        self._free_at = 0.0

    def start(self) -> None:
        """There is no thread."""

    def stop(self) -> None:
        """Nothing is left to do once the turns are drained."""

    def schedule(self, work: Callable[[], None]) -> None:
        """Carry out `work` after what was scheduled before."""
        took = _SYNC_S * (0.3 + self._process.rng.expovariate(1.0)) * self._process.disk_slow
        self._free_at = max(self._free_at, self.sim.now) + took
        self.sim.later_as(self._process, self._free_at - self.sim.now, self.carry_out, work)


class World:
    """One simulation: its loop, network, disks and metadata servers."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.loop = SimLoop(seed)
        self.network = Network(self.loop)
        self.system = SimSystem(self.loop)
        self.metadata = SimEnsemble(self.loop)
        self._chance = Random(f"{seed}/chance")

    # Clocks

    def wall_s(self) -> float:
        """The wall clock of the current process, in seconds since 1970."""
        return EPOCH_S + self.loop.now + self.loop.current.wall_offset_s

    # Chance

    def random(self, *_: object) -> Random:
        """A generator for a process."""
        return Random(self._chance.getrandbits(64))

    # What processes say

    def hear(self, _: str, /, *, exc_info: BaseException | None = None, **fields: object) -> None:
        """As EventLogger.exception and critical: an error that the product survives, but has no name for, is noted.

        RocksDB's errors have no other class than Exception.
        """
        error = exc_info or sys.exception()
        if error is None or type(error) is Exception or isinstance(error, MledgerError | OSError | Killed):
            return
        self.loop.errors.append((self.loop.current, error))


class _Replaced:
    """Attributes of modules and classes that are replaced for a while."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def put(self, where: Any, name: str, value: Any) -> None:
        """Replace an attribute. AttributeError when a module has none of that name."""
        if isinstance(where, ModuleType):
            before = vars(where).get(name, _ABSENT)
            if before is _ABSENT and name != "open":
                raise AttributeError(f"{where.__name__} has no {name}")
        else:
            before = getattr(where, name, _ABSENT)
        self._before.append((where, name, before))
        setattr(where, name, value)

    def undo(self) -> None:
        """Put everything back."""
        for where, name, before in reversed(self._before):
            if before is _ABSENT:
                delattr(where, name)
            else:
                setattr(where, name, before)


@contextlib.contextmanager
def simulated(world: World, limits: Limits) -> Iterator[None]:
    """Replace the system by a simulated one, and sizes and times of the product as `limits` say."""
    replaced, hooks, chance = _Replaced(), sys.get_asyncgen_hooks(), random.getstate()
    try:
        _replace_storage(replaced.put, world)
        _replace_surroundings(replaced.put, world)
        _replace_sizes(replaced.put, limits)
        sys.set_asyncgen_hooks(firstiter=None, finalizer=lambda _: None)  # those of dead processes stay as they are
        random.seed(world._chance.getrandbits(64))
        try:
            yield
        finally:
            world.loop.abandon()
    finally:
        random.setstate(chance)
        sys.set_asyncgen_hooks(*hooks)
        replaced.undo()


_ABSENT = object()
_Put = Callable[[Any, str, Any], None]


def _replace_storage(put: _Put, world: World) -> None:
    """Disks, the threads that work on them, and RocksDB."""
    system = world.system
    for module in _modules_with_os():
        put(module, "os", system)
    for text_module in (directory, directory_parts):
        put(text_module, "open", system.open_text)
    put(directory, "fcntl", SimpleNamespace(flock=lambda file, _: system.lock(file), LOCK_EX=2, LOCK_NB=4))
    put(directory, "hold", callable)  # no simulated process forks
    put(directory, "close_held", system.close)
    put(journal_files, "_FILL_BYTES", len(ZEROS))
    put(journal_files, "mmap", SimpleNamespace(mmap=lambda *_: contextlib.nullcontext(ZEROS)))
    for pooled in (bookie, cold_reads, index_flushes, journal_files):
        put(pooled, "ThreadPoolExecutor", SimPool)
    put(group_commit, "JournalThread", SimJournalThread)
    put(SimJournalThread, "sim", world.loop)
    put(index, "Rdict", rows.Rdict)
    put(index, "WriteBatch", rows.WriteBatch)
    put(index, "WriteOptions", rows.SimOptions)
    put(index, "rocksdb_options", rows.SimOptions)
    put(index, "whole_compaction", lambda: None)
    put(rows.Rdict, "system", system)


def _replace_surroundings(put: _Put, world: World) -> None:
    """The network, the metadata servers, clocks and chance, and what processes say."""
    put(cookie_check, "bind_listener", lambda host, port, **_: world.network.bind(host, port))
    put(main, "refuse_waiting", lambda listener: 0)
    put(main, "allow_connections", lambda wanted: wanted)
    put(main, "_program_version", lambda: "")
    put(main, "print_serving", lambda fields: None)
    put(main, "open_store", lambda url, session_timeout, timeout: _open(world, session_timeout))
    put(cluster, "open_store", lambda url, session_timeout: _open(world, session_timeout))
    put(client, "random", SimpleNamespace(Random=world.random))
    put(ownership, "os", SimpleNamespace(getpid=lambda: 1))
    put(ownership, "socket", SimpleNamespace(gethostname=lambda: world.loop.current.name))
    put(time, "time", world.wall_s)
    put(time, "time_ns", lambda: int(world.wall_s() * 1e9))
    put(time, "monotonic", world.loop.time)
    put(time, "perf_counter", world.loop.time)
    put(tree, "_now_ms", world.metadata.clock_ms)
    put(secrets, "token_bytes", lambda n=32: world._chance.randbytes(n))
    put(secrets, "randbits", world._chance.getrandbits)
    put(uuid, "uuid4", lambda: uuid.UUID(int=world._chance.getrandbits(128), version=4))
    put(EventLogger, "exception", world.hear)
    put(EventLogger, "critical", world.hear)
    put(sys, "unraisablehook", lambda _: None)
    if hasattr(tasks, "_all_tasks"):
        put(tasks._all_tasks, "add", callable)  # Python 3.11 keeps a weak reference to every task: nobody asks


def _replace_sizes(put: _Put, limits: Limits) -> None:
    put(group_commit, "MOST_LEDGERS", limits.most_ledgers)
    put(ledgers, "LARGEST_RUN", limits.largest_run)
    if limits.request_bytes:
        put(pending_records, "ONE_WRITE_BYTES", limits.request_bytes * 3 // 4)
        put(batched_store, "MOST_BYTES", limits.request_bytes // 3)
    if limits.impatient:
        put(container, "RETRY_DELAYS_S", (0.05, 0.1, 0.2, 0.4))
        put(persistence, "RETRY_FIRST_S", 0.05)
        put(persistence, "RETRY_LAST_S", 1.0)


@cache
def _modules_with_os() -> list[ModuleType]:
    import os

    found = [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith("mledger.bookie.server.") and vars(module).get("os") is os
    ]
    return [*found, durable_files]


async def _open(world: World, session_timeout: float) -> Any:
    return await world.metadata.open(world.loop.current, session_timeout)
