"""Metadata, bookies and a broker on one event loop; they start in this order and end in the reverse one."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from mledger.bookie.server.process.main import BookieProcess
from mledger.broker.process.main import BrokerProcess
from mledger.broker.process.options import plan_web_url
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.rocksdb.server import MetadataServer
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.url import open_store
from mledger.standalone.addresses import StandaloneAddresses
from mledger.standalone.directory import StandaloneDirectory, plan_bookies
from mledger.standalone.errors import part_ended
from mledger.standalone.options import StandaloneOptions, plan_bookie_options, plan_standalone_broker

log = get_logger(__name__)

T = TypeVar("T")

StopLimit = Callable[[float], None]
"""Called when the broker begins to end, with the seconds that it may take."""


class _Part:
    """A bookie or the broker, in a task of its own."""

    def __init__(self, name: str, process: BookieProcess | BrokerProcess, stop_limit: StopLimit | None = None) -> None:
        """Start it."""
        self.name = name
        self.is_bookie = isinstance(process, BookieProcess)
        self._process = process
        self.served: asyncio.Future[Mapping[str, object]] = asyncio.get_running_loop().create_future()
        serving = (
            process.serve(self._announce)
            if isinstance(process, BookieProcess)
            else process.serve(self._announce, stop_limit or _no_limit)
        )
        self.task = asyncio.create_task(serving, name=name)

    def _announce(self, fields: Mapping[str, object]) -> None:
        if not self.served.done():
            self.served.set_result(fields)

    async def wait_served(self) -> None:
        """Wait until it serves; raise what ended it, as `check`."""
        waited: list[asyncio.Future[Any]] = [self.served, self.task]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        self.check()

    async def stop(self) -> None:
        """End it in order."""
        if self.task.done():
            if not self.task.cancelled():
                self.task.exception()  # it counts as seen: of parts that cannot start, the first one's is raised
            return
        self._process.stop()
        await asyncio.wait([self.task])
        if self.task.cancelled():  # by the program, with all tasks of the loop
            return
        if (error := self.task.exception()) is not None:
            log.error("part_failed", part=self.name, error=error)

    def check(self) -> None:
        """Raise what ended it, if it has ended."""
        if self.task.done():
            self.task.result()
            raise part_ended(self.name)


class StandaloneServer:
    """A standalone that serves; `open_standalone` makes one."""

    def __init__(self, addresses: StandaloneAddresses, parts: Sequence[_Part], metadata: MetadataServer | None) -> None:
        self.addresses = addresses
        self._parts, self._metadata = parts, metadata

    async def wait(self) -> None:
        """Wait as long as all parts serve, then raise as `check`."""
        metadata = [] if self._metadata is None else [self._metadata.failed]
        await asyncio.wait([*metadata, *(part.task for part in self._parts)], return_when=asyncio.FIRST_COMPLETED)
        self.check()

    def check(self) -> None:
        """Raise the error of the part that ended by itself, if one has: MledgerError, OSError."""
        if self._metadata is not None and self._metadata.failed.done():
            self._metadata.failed.result()
        for part in self._parts:
            part.check()


@contextlib.asynccontextmanager
async def open_standalone(
    options: StandaloneOptions, stop_limit: StopLimit | None = None
) -> AsyncIterator[StandaloneServer]:
    """Start a standalone on the running loop; at exit end it in order, even if the task is cancelled meanwhile.

    A process that was forked meanwhile ends nothing: all of it is its parent's.

    Raises:
        StandaloneError: the directory is in use, or not usable.
        InvalidSetting, InvalidConfiguration, InvalidMetadataUrl: the options are wrong; nothing has changed yet.
        MledgerError: a part cannot start, for example since its port is in use.
    """
    options.check()
    stack, owner = contextlib.AsyncExitStack(), os.getpid()
    try:
        yield await _start(options, stack, stop_limit)
    finally:
        if os.getpid() == owner:
            await _to_the_end(stack.aclose())


async def _start(
    options: StandaloneOptions, stack: contextlib.AsyncExitStack, stop_limit: StopLimit | None
) -> StandaloneServer:
    """Start all parts; `stack` ends those that were started."""
    directory = StandaloneDirectory(options.data_dir)
    stack.callback(directory.close)
    bookies = plan_bookies(options.bookies, directory.bookies)
    url, metadata = options.metadata, None
    if not url:
        directory.check_metadata()
        metadata = await MetadataServer.open(directory.metadata, in_memory=options.ephemeral)
        stack.push_async_callback(metadata.close)
        url = metadata.url
    async with await open_store(url) as store:
        await initialize(store)
    started: list[_Part] = []
    stack.push_async_callback(_stop_in_turn, started)
    broker_options = plan_standalone_broker(options, bookies, url)
    for number in range(1, bookies + 1):
        process = BookieProcess(plan_bookie_options(options, url, directory.bookie(number)))
        started.append(_Part(f"bookie-{number}", process))
    broker = _Part("broker", BrokerProcess(broker_options), stop_limit)  # takes no port that a bookie comes back to
    started.append(broker)
    for part in started:
        await part.wait_served()
    served = broker.served.result()
    admin_url = plan_web_url(broker_options, int(str(served["metrics_port"])))
    service_url = str(served.get("service_url") or served["service_url_tls"])
    return StandaloneServer(StandaloneAddresses(service_url, admin_url, url, directory.path), started, metadata)


async def _to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Do the work even if this task is cancelled meanwhile; it then ends as cancelled once the work is done."""
    task, cancelled = asyncio.ensure_future(work), None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from (None if task.cancelled() else task.exception())
    return task.result()


async def _stop_in_turn(parts: Sequence[_Part]) -> None:
    """End the broker, which was started last, then all bookies at once."""
    for bookies in (False, True):
        await asyncio.gather(*(part.stop() for part in parts if part.is_bookie is bookies))


def _no_limit(seconds: float) -> None:
    """Leave the end to the program in which the standalone runs."""
