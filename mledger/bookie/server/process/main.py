"""A bookie's process: directory, metadata store, registration, garbage collection, and an orderly end."""

import asyncio
import contextlib
import importlib
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast

from mledger.bookie.errors import BookieError, DiskFull, InvalidBookieDirectory
from mledger.bookie.local_transport import serve_locally
from mledger.bookie.server.process.bookie import ServingBookie
from mledger.bookie.server.process.cookie_check import confirm, default_port, establish, listen, own_id
from mledger.bookie.server.process.garbage import GarbageCollector
from mledger.bookie.server.process.lost_ledgers import find_lost
from mledger.bookie.server.process.options import PROGRAM, BookieOptions, parse_options
from mledger.bookie.server.process.settings import KNOWN_KEYS
from mledger.bookie.server.serving.auth import AuthFactory
from mledger.bookie.server.serving.certificate_roles import CertificateRoles
from mledger.bookie.server.serving.tls import certificates
from mledger.bookie.server.storage.directories.directory import BookieDirectory
from mledger.bookie.server.storage.directories.disk import DiskLimits, damage_named, fullest, plan_full, why_full
from mledger.metastore.cluster.bookies import register, registered_at, unregister
from mledger.metastore.cluster.layout import instance_id
from mledger.metastore.errors import MetadataError, MledgerError, NodeExists, SessionExpired
from mledger.metastore.runtime.announcement import Announcement, print_serving
from mledger.metastore.runtime.logs.loggers import get_logger, set_up_logging
from mledger.metastore.runtime.network.connection_limit import ConnectionLimit
from mledger.metastore.runtime.network.listening_port import BACKLOG, allow_connections, refuse_waiting
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.runtime.processes.event_loop import loop_factory
from mledger.metastore.store import MetadataStore, SessionState
from mledger.metastore.url import open_store

log = get_logger(__name__)

_RETRY_S = 1.0
_SESSION_LOOK_S = 3600.0
_ADDRESS_LOOK_S = 0.2
_LISTS_S = 2.0  # clients' lists of bookies may be so old
HUNG_S = 10.0
"""How long a record may take before the disk that it waits for counts as hanging: the journal's, or the index's."""
EXPIRY_S = 5.0
"""How long after its time-out the session of a former process may end: ZooKeeper looks now and then."""
ADDRESS_WAIT_S = 120.0
"""How long to wait for another bookie's registration at this one's address to end: longer than sessions last."""


class BookieProcess:
    """One bookie from start to end."""

    def __init__(self, options: BookieOptions) -> None:
        self._options = options
        self._stop = asyncio.Event()
        self._metadata: MetadataStore
        self._directory: BookieDirectory
        self._bookie: ServingBookie
        self._bookie_id = ""
        self._port = 0
        self._http: tuple[str, int] | None = None
        self._registered = False
        self._read_only_told: bool | None = None  # what is registered; None: not known
        self._gate = ConnectionLimit(options.max_connections, leaves_files=options.local_transport)
        self._disk_warned = self._disk_full = False

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, and announce it on stdout. Errors: see `serve`."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.stop)
        await self.serve(print_serving)

    def stop(self) -> None:
        """Have it end in order, now or as soon as it serves."""
        self._stop.set()

    async def serve(self, announce: Announcement) -> None:
        """Serve until `stop`; `announce` is called once clients can connect.

        Raises:
            MledgerError: it cannot start, or cannot go on.
            OSError: the port is taken.
        """
        options = self._options
        loop = asyncio.get_running_loop()
        tls = None if options.tls is None else certificates(options.tls)
        self._gate.most = allow_connections(options.max_connections)
        self._directory = directory = BookieDirectory(options.directory, options.journal)
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(directory.unlock)
            listener = listen(directory.format, options.host, options.announced, options.port, options.relocation)
            stack.callback(listener.close)
            self._port = listener.getsockname()[1]
            self._bookie_id = self._id_of(directory)
            self._metadata = await self._open_metadata()
            stack.push_async_callback(self._close_metadata)
            instance = await instance_id(self._metadata, options.ledgers_root)
            await establish(
                self._metadata, directory, self._bookie_id, instance, options.ledgers_root, options.relocation
            )
            self._bookie = ServingBookie(directory, options.storage, _auth_factory(options), self._gate, tls)
            stack.push_async_callback(self._bookie.close)
            self._bookie.turns.read_only = options.read_only
            disks = [directory.path, directory.journal]
            if not options.read_only:
                self._look_at_disk(disks, options.disk)
            if options.metrics is not None:
                stack.push_async_callback(await self._serve_metrics(directory, options.metrics))
            taken = await self._wait_for_address()
            if self._stop.is_set():
                return
            if not await self._register_first():
                return
            if not self._read_only_told == self._bookie.turns.read_only == options.read_only:
                await self._tell_read_only()  # a former process may have been writable
            if taken or self._bookie_id != f"{options.announced}:{self._port}":
                # they may mean a bookie that served here before: nothing in protocol 2 names the one that is meant
                log.debug("connections_closed", count=refuse_waiting(listener))
            server = await loop.create_server(self._bookie.connection, sock=listener, backlog=BACKLOG)
            if options.local_transport:
                address, known = (options.announced, self._port), default_port(directory.format, options.announced)
                stack.callback(serve_locally(address, self._bookie.connection, known))
            announce(self._serving())
            garbage = GarbageCollector(
                self._bookie,
                instance,
                options.ledgers_root,
                options.compactions,
                options.garbage_grace,
                self._bookie_id,
                options.overreplicated_interval,
            )
            works = [self._keep_registered(), self._collect_garbage(garbage)]
            if not options.read_only:
                works.append(self._watch_disk(disks, options.disk))
            tasks = [loop.create_task(work) for work in works]
            await self._stop_or_failure(tasks)
            log.info("stopping", bookie=self._bookie_id)
            server.close()
        log.info("stopped", bookie=self._bookie_id)

    async def _stop_or_failure(self, tasks: Sequence["asyncio.Task[Any]"]) -> None:
        """Wait for the signal, or until one of `tasks` ends; its error ends the process."""
        stop = asyncio.ensure_future(self._stop.wait())
        done, _ = await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in (stop, *tasks):
            task.cancel()
        await asyncio.gather(stop, *tasks, return_exceptions=True)
        for ended in done:
            ended.result()

    def _id_of(self, directory: BookieDirectory) -> str:
        options = self._options
        own = options.bookie_id or own_id(directory.format, options.announced, self._port, options.relocation)
        return own or f"{options.announced}:{self._port}"

    async def _open_metadata(self) -> MetadataStore:
        session = self._options.session_timeout
        return await open_store(self._options.metadata, session_timeout=session, timeout=session)

    async def _close_metadata(self) -> None:
        await self._metadata.close()

    async def _wait_for_address(self) -> bool:
        """Wait until no other bookie is registered at this one's address; return whether one was.

        A bookie that was killed stays registered until its session ends. Until then, clients would take this one for
        it: their entries would be acknowledged here, and be sought and missed there. BookieError if it stays.
        """
        options, loop, taken = self._options, asyncio.get_running_loop(), False
        until = loop.time() + ADDRESS_WAIT_S
        while others := await self._others_here():
            if loop.time() >= until:
                raise BookieError(
                    f"{options.announced}:{self._port} is the address of the registered bookie {others[0]}: stop it, "
                    f"or start {self._bookie_id} at another address"
                )
            if not taken:
                log.warning("address_waited_for", bookie=self._bookie_id, port=self._port, registered=others[0])
            taken = True
            await self._stopped_within(_ADDRESS_LOOK_S)
            if self._stop.is_set():
                return taken
        if taken:
            await self._stopped_within(_LISTS_S)
        return taken

    async def _stopped_within(self, seconds: float) -> None:
        """Wait for the signal to stop, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with TimeLimit(seconds):
                await self._stop.wait()

    async def _others_here(self) -> list[str]:
        """The other bookies that are registered at this one's address."""
        options = self._options
        while True:
            try:
                return await registered_at(
                    self._metadata, options.announced, self._port, without=self._bookie_id, root=options.ledgers_root
                )
            except SessionExpired:
                await self._open_next_session()

    async def _register_first(self) -> bool:
        """Register; False if it is to stop before. NodeExists if another bookie has its id.

        The own session may have ended while the storage was opened, which may take long.
        """
        if not self._directory.unserved:
            return await self._once_unregistered(self._register)
        noting = asyncio.ensure_future(self._once_unregistered(self._note_lost))
        await self._stop_or_failure([noting])
        if self._stop.is_set():
            return False
        with damage_named(self._directory.path):
            self._directory.finish()
        self._registered = True
        return True

    async def _note_lost(self) -> None:
        """Note what a former directory of this bookie may have held, while no other process can register under its id.

        A former process that is registered takes entries of more ledgers: what was listed before is too old. Until it
        serves, the bookie is registered as read-only: owners would choose it. SessionExpired, NodeExists: list anew.
        """
        await self._register(as_read_only=True)
        await self._bookie.note_lost(await find_lost(self._metadata, self._bookie_id, self._options.ledgers_root))
        await self._register(as_read_only=True)

    async def _once_unregistered(self, act: Callable[[], Awaitable[None]]) -> bool:
        """Do what raises NodeExists while another session has registered this id; False if it is to stop before.

        A former process at another address, or with another directory, stays registered until its session ends: that is
        waited for. NodeExists if it does not end.
        """
        loop, told = asyncio.get_running_loop(), False
        until = loop.time() + self._options.session_timeout + EXPIRY_S
        while not self._stop.is_set():
            try:
                await act()
                return True
            except SessionExpired:
                if loop.time() >= until:
                    raise
                await self._open_next_session()
            except NodeExists as error:
                if loop.time() >= until:
                    raise
                if not told:
                    log.warning("registration_waited_for", bookie=self._bookie_id, path=error.path)
                told = True
                await self._stopped_within(_ADDRESS_LOOK_S)
        return False

    async def _open_next_session(self) -> None:
        """Open a session after one that ended while the bookie was starting."""
        log.warning("session_expired", bookie=self._bookie_id)
        await self._metadata.close()
        await self._open_confirmed()

    async def _open_confirmed(self) -> None:
        """Open a session, and check that the directory is still the bookie's."""
        self._metadata = await self._open_metadata()
        await confirm(self._metadata, self._directory, self._bookie_id, self._options.ledgers_root)

    async def _register(self, *, as_read_only: bool = False) -> None:
        read_only = as_read_only or self._bookie.turns.read_only
        await register(
            self._metadata,
            self._bookie_id,
            self._options.announced,
            self._port,
            read_only=read_only,
            directory=self._directory.mark,
            http=self._http,
            version=_program_version(),
            root=self._options.ledgers_root,
        )
        self._registered, self._read_only_told = not self._directory.unserved, read_only
        if not as_read_only:
            log.info("registered", bookie=self._bookie_id, read_only=read_only)

    async def _tell_read_only(self) -> None:
        """Move the registration to the list of the writable or of the read-only bookies."""
        try:
            await self._register()
            self._read_only_told = None
            read_only = self._bookie.turns.read_only
            await unregister(self._metadata, self._bookie_id, read_only=not read_only, root=self._options.ledgers_root)
            self._read_only_told = read_only
        except NodeExists:
            self._bookie.cut_off()
            raise
        except MetadataError as error:  # retried at the next check
            self._read_only_told = None
            log.warning("register_failed", bookie=self._bookie_id, error=error)

    def _serving(self) -> dict[str, object]:
        """What is announced: how to reach the bookie."""
        where = {"host": self._options.announced, "port": self._port}
        fields: dict[str, object] = {"bookie_id": self._bookie_id, **where, "pid": os.getpid()}
        if self._http is not None:
            fields["metrics_port"] = self._http[1]
        return fields

    async def _keep_registered(self) -> None:
        """Open a new session whenever one expires, while the process lives.

        The process ends if meanwhile another one took its id (NodeExists), or it was decommissioned
        (InvalidBookieDirectory); from then on it answers nothing.
        """
        while True:
            try:
                await self._metadata.wait_for_session(SessionState.EXPIRED, _SESSION_LOOK_S)
            except TimeoutError:
                continue
            self._registered = False
            log.warning("session_expired", bookie=self._bookie_id)
            expired = self._metadata
            while True:
                try:
                    await self._open_confirmed()
                    await self._register()
                    break
                except (InvalidBookieDirectory, NodeExists):
                    self._bookie.cut_off()
                    raise
                except Exception as error:  # errors of the system too: nobody else would try again
                    log.warning("register_failed", bookie=self._bookie_id, error=error)
                    if self._metadata is not expired:
                        await self._metadata.close()
                    await asyncio.sleep(_RETRY_S)
            await expired.close()

    async def _serve_metrics(
        self, directory: BookieDirectory, address: tuple[str, int]
    ) -> Callable[[], Coroutine[Any, Any, None]]:
        """Serve metrics and health over HTTP; what ends that."""
        from mledger.bookie.server.process.metrics import (  # only bookies with metrics load the library
            BookieMetrics,
            BookieState,
        )
        from mledger.metastore.runtime.network.http import HttpServer

        def state() -> BookieState:
            known = self._registered and self._metadata.session_state is SessionState.CONNECTED
            return BookieState(known, self._bookie.turns.read_only, self._stop.is_set())

        host, port = address
        server = HttpServer(BookieMetrics(self._bookie, self._gate, directory.path, state).routes())
        try:
            self._http = host, await server.start(host, port)
        except OSError as error:
            raise BookieError(
                f"cannot serve metrics on {host} port {port}: {error.strerror or error}; name another port"
            ) from None
        log.info("metrics_served", host=self._http[0], port=self._http[1])
        return server.close

    async def _collect_garbage(self, garbage: GarbageCollector) -> None:
        while True:
            await asyncio.sleep(self._options.garbage_interval)
            await garbage.run(self._metadata)

    async def _watch_disk(self, paths: Sequence[str], limits: DiskLimits) -> None:
        """Make the bookie read-only while a disk is nearly full, or end it, as `limits` say."""
        while True:
            try:
                self._look_at_disk(paths, limits)
            except InvalidBookieDirectory as error:  # where that lasts, the journal's next write ends the process
                log.warning("disk_not_looked_at", bookie=self._bookie_id, error=error)
            if self._read_only_told != self._bookie.turns.read_only:
                await self._tell_read_only()
            await asyncio.sleep(limits.look_s)

    def _look_at_disk(self, paths: Sequence[str], limits: DiskLimits) -> None:
        """Become read-only or writable according to the free space. DiskFull if the bookie is to end.

        A bookie with a disk that hangs is read-only too: clients would choose it again and again. So is one with a
        damaged index, which is not compacted any more.

        InvalidBookieDirectory if a disk cannot be looked at.
        """
        turns = self._bookie.turns
        hangs = turns.sync_s > HUNG_S
        with damage_named(self._directory.path):
            disk = fullest(paths)
            if not hangs:
                self._bookie.tend_reserves()
            left = {path: self._bookie.disk_left(path) for path in paths}
        if self._disk_warned != (disk.used_share > limits.warn_share):
            self._disk_warned = not self._disk_warned
            log.warning("disk_nearly_full", value=self._disk_warned, used_share=round(disk.used_share, 3))
        full = plan_full(self._disk_full, left, limits)
        room = not full and not turns.full
        self._disk_full = not room
        if not room and limits.stop_when_full:
            place = full[0] if full else self._directory.journal
            raise DiskFull(
                f"disk full: the disk of {place} has {left[place].left} and readOnlyModeEnabled is "
                "false: make room and start the bookie again"
            )
        wanted = hangs or not room or self._bookie.index.damaged
        if wanted != turns.read_only:
            turns.read_only = wanted
            why = "there is room" if room else why_full(left[each] for each in full)
            if hangs:
                why = f"the {'index' if turns.flushes.awaited else 'journal'}'s disk hangs"
            if self._bookie.index.damaged:
                why = "the index is damaged, re-replicate the bookie's ledgers"
            free = min(left[path].free for path in full or paths)
            log.warning("read_only", value=wanted, free_bytes=free, reason=why)


def _program_version() -> str:
    try:
        return version("mledger")
    except PackageNotFoundError:  # run from its source
        return ""


def _auth_factory(options: BookieOptions) -> AuthFactory | None:
    if options.roles:
        return partial(CertificateRoles, options.roles)
    if not options.auth:
        return None
    module, _, attribute = options.auth.partition(":")
    return cast("AuthFactory", getattr(importlib.import_module(module), attribute))


def main(arguments: Sequence[str] | None = None, program: str = PROGRAM) -> int:
    """Run a bookie; return its exit code. Messages call it `program`."""
    options = parse_options(sys.argv[1:] if arguments is None else arguments, program)
    set_up_logging(options.log_format, options.log_level)
    sys.setswitchinterval(0.0005)
    if options.settings is not None:
        options.settings.report(log, KNOWN_KEYS.__contains__)
    started = time.monotonic()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(BookieProcess(options).run())
    except (MledgerError, NodeExists) as error:
        log.error("failed", seconds=round(time.monotonic() - started, 1), error=error)
        return 1
    return 0
