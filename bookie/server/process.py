"""A bookie's process: directory, metadata store, registration, garbage collection, and an orderly end."""

import asyncio
import contextlib
import errno
import importlib
import json
import logging
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import cast

from bookie.errors import BookieError
from bookie.server.auth import AuthFactory
from bookie.server.bookie import Bookie
from bookie.server.directory import Directory
from bookie.server.garbage import GarbageCollector
from bookie.server.identity import default_port, establish
from bookie.server.options import Options, parse_options
from metastore.bookies import register, unregister
from metastore.errors import MetadataError, MledgerError, NodeExists
from metastore.layout import instance_id
from metastore.store import MetadataStore, SessionState
from metastore.url import open_store

log = logging.getLogger(__name__)

_RETRY_S = 1.0
_DISK_LOOK_S = 5.0
_SESSION_LOOK_S = 3600.0
_BACKLOG = 1024
_PORTS = range(15_000, 32_000)
_PORT_ATTEMPTS = 100


def plan_read_only(read_only: bool, free: int, least: int) -> bool:
    """Whether a bookie with `free` bytes of disk takes no new entries; it takes them again at twice the least."""
    return free < (2 * least if read_only else least)


class Process:
    """One bookie from start to end."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._stop = asyncio.Event()
        self._metadata: MetadataStore
        self._bookie: Bookie
        self._bookie_id = ""
        self._port = 0

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT. MledgerError when it cannot start; OSError when the port is taken."""
        options = self._options
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        directory = Directory(options.directory)
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(directory.unlock)
            listener = _bind(options.host, options.port or default_port(directory.format, options.host))
            stack.callback(listener.close)
            self._port = listener.getsockname()[1]
            self._bookie_id = self._id_of(directory)
            self._metadata = await self._open_metadata()
            stack.push_async_callback(self._close_metadata)
            instance = await instance_id(self._metadata, options.ledgers_root)
            await establish(self._metadata, directory, self._bookie_id, instance, options.ledgers_root)
            self._bookie = Bookie(directory, options.storage, _auth_factory(options.auth))
            stack.push_async_callback(self._bookie.close)
            self._bookie.turns.read_only = options.read_only
            server = await loop.create_server(self._bookie.connection, sock=listener, backlog=_BACKLOG)
            await self._register()
            self._announce()
            garbage = GarbageCollector(self._bookie, instance, options.ledgers_root)
            works = [self._keep_registered(), self._collect_garbage(garbage)]
            if not options.read_only:
                works.append(self._watch_disk(directory.path))
            tasks = [loop.create_task(work) for work in works]
            await self._stop_or_failure(tasks)
            log.info("event=stopping bookie=%s", self._bookie_id)
            server.close()
        log.info("event=stopped bookie=%s", self._bookie_id)

    async def _stop_or_failure(self, tasks: Sequence["asyncio.Task[None]"]) -> None:
        """Wait for the signal; a part that fails ends the process with its error."""
        stop = asyncio.ensure_future(self._stop.wait())
        done, _ = await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in (stop, *tasks):
            task.cancel()
        await asyncio.gather(stop, *tasks, return_exceptions=True)
        for ended in done:
            ended.result()

    def _id_of(self, directory: Directory) -> str:
        if self._options.bookie_id:
            return self._options.bookie_id
        if directory.format is not None and default_port(directory.format, self._options.host) in (0, self._port):
            return directory.format.bookie_id
        return f"{self._options.host}:{self._port}"

    async def _open_metadata(self) -> MetadataStore:
        session = self._options.session_timeout
        return await open_store(self._options.metadata, session_timeout=session, timeout=session)

    async def _close_metadata(self) -> None:
        await self._metadata.close()

    async def _register(self) -> None:
        await register(
            self._metadata,
            self._bookie_id,
            self._options.host,
            self._port,
            read_only=self._bookie.turns.read_only,
            replace_own=True,
            root=self._options.ledgers_root,
        )
        log.info("event=registered bookie=%s read_only=%s", self._bookie_id, self._bookie.turns.read_only)

    def _announce(self) -> None:
        """Say on stdout, in one line, that the bookie serves."""
        fields = {"bookie_id": self._bookie_id, "host": self._options.host, "port": self._port, "pid": os.getpid()}
        sys.stdout.write(json.dumps(fields) + "\n")
        sys.stdout.flush()

    async def _keep_registered(self) -> None:
        """Open a new session when one has expired, for as long as the process lives."""
        while True:
            try:
                await self._metadata.wait_for_session(SessionState.EXPIRED, _SESSION_LOOK_S)
            except TimeoutError:
                continue
            log.warning("event=session_expired bookie=%s", self._bookie_id)
            expired = self._metadata
            while True:
                try:
                    self._metadata = await self._open_metadata()
                    await self._register()
                    break
                except MetadataError as error:
                    log.warning("event=register_failed bookie=%s error=%r", self._bookie_id, str(error))
                    if self._metadata is not expired:
                        await self._metadata.close()
                    await asyncio.sleep(_RETRY_S)
            await expired.close()

    async def _collect_garbage(self, garbage: GarbageCollector) -> None:
        while True:
            await asyncio.sleep(self._options.garbage_interval)
            try:
                await garbage.collect(self._metadata)
                await garbage.reclaim()
            except MetadataError as error:
                log.warning("event=garbage_collection_failed error=%r deleted=nothing", str(error))

    async def _watch_disk(self, path: str) -> None:
        """Become read-only while the disk is nearly full."""
        while True:
            disk = os.statvfs(path)
            turns, free = self._bookie.turns, disk.f_bavail * disk.f_frsize
            wanted = plan_read_only(turns.read_only, free, self._options.min_free_bytes)
            if wanted != turns.read_only:
                turns.read_only = wanted
                log.warning("event=read_only value=%s free_bytes=%d", wanted, free)
                try:
                    await self._register()
                    await unregister(
                        self._metadata, self._bookie_id, read_only=not wanted, root=self._options.ledgers_root
                    )
                except MetadataError as error:
                    log.warning("event=register_failed bookie=%s error=%r", self._bookie_id, str(error))
            await asyncio.sleep(_DISK_LOOK_S)


def _bind(host: str, port: int) -> socket.socket:
    """A listening socket; with port 0 one that outgoing connections are not given while the bookie is down."""
    ports = (port,) if port else random.sample(_PORTS, _PORT_ATTEMPTS)
    for number in ports:
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, number))
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            if port or error.errno != errno.EADDRINUSE:
                raise BookieError(f"cannot listen on {host} port {number}: {error.strerror}; name another") from None
        else:
            return listener
    raise BookieError(f"no free port found on {host} between {_PORTS.start} and {_PORTS.stop}: name one with --port")


def _auth_factory(name: str) -> AuthFactory | None:
    if not name:
        return None
    module, _, attribute = name.partition(":")
    return cast("AuthFactory", getattr(importlib.import_module(module), attribute))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a bookie; the exit code."""
    options = parse_options(sys.argv[1:] if arguments is None else arguments)
    logging.basicConfig(
        stream=sys.stderr,
        level=options.log_level.upper(),
        format="%(asctime)s level=%(levelname)s logger=%(name)s %(message)s",
    )
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    sys.setswitchinterval(0.0005)
    started = time.monotonic()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(Process(options).run())
    except (MledgerError, NodeExists) as error:
        log.error("event=failed seconds=%.1f error=%r", time.monotonic() - started, str(error))
        return 1
    return 0


def _loop_factory() -> "type[asyncio.AbstractEventLoop] | None":
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop  # type: ignore[no-any-return]
