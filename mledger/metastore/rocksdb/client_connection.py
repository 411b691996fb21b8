"""A client's session with a metadata server: it reconnects whenever the connection is lost, until the session ends.

Reads that are lost with a connection are sent again. Writes never are: only their caller can find out, by reading back,
whether a lost write was carried out (M7). Watches are set again and then report UNKNOWN.
"""

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Callable
from typing import cast

from msgspec import Struct

from mledger.metastore.errors import MetadataError, StoreUnavailable
from mledger.metastore.records.pb import MetadataStore_pb2 as pb
from mledger.metastore.rocksdb import wire
from mledger.metastore.rocksdb.directory import connect
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.session import ENDED, Session
from mledger.metastore.store import NodeChange, SessionState

log = get_logger(__name__)

HEARTBEATS = 3  # per session time-out
CLOSE_LIMIT_S = 1.0
FIRST_DELAY_S = 0.02  # before connecting again
LONGEST_DELAY_S = 0.25


class ConnectionGone(Exception):
    """The connection ended before the answer came."""


class ServerWatch(Struct, eq=False):
    """A watch; `armed` once it is set at the server."""

    watch_id: int
    path: str
    children: bool
    tell: Callable[[NodeChange], None]
    armed: bool = False

    def request(self) -> pb.Request:
        """The request that sets it."""
        return pb.Request(watch=pb.Watch(watch_id=self.watch_id, path=self.path, children=self.children))


class _Asked(Struct, eq=False):
    """A request and the future of its answer; `again`: it may be sent twice."""

    request: pb.Request
    answer: "asyncio.Future[pb.Answer]"
    again: bool
    arms: ServerWatch | None = None


class _Link(asyncio.Protocol):
    """One connection; passes answers on until it ends."""

    def __init__(self, take: Callable[[pb.Answer], None]) -> None:
        self._take = take
        self._frames = wire.Frames(pb.Answer, wire.MAX_ANSWER)
        self._loop = asyncio.get_running_loop()
        self._out: list[bytes] = []
        self.transport: asyncio.Transport
        self.heard_at = self._loop.time()
        self.ended: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's does not inherit from it

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._loop.time()
        try:
            for answer in self._frames.feed(data):
                self._take(answer)
        except wire.WireError as error:
            log.warning("metadata_answer_refused", error=error)
            self.transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def send(self, request: pb.Request) -> None:
        """Send `request` together with all others of this turn of the loop."""
        if not self._out:
            self._loop.call_soon(self._write)
        self._out.append(wire.frame(request))

    def _write(self) -> None:
        out, self._out = self._out, []
        if not self.transport.is_closing():
            self.transport.write(b"".join(out))


class ClientConnection:
    """A session; `ask` sends requests, `session` has its state."""

    def __init__(self, directory: str, session_timeout: float, *, only_reads: bool) -> None:
        """Prepare for the server of `directory`; `open` connects. `session_timeout` in seconds."""
        self.directory = directory
        self.session = Session(f"rocksdb:{directory}", SessionState.SUSPENDED)
        self.session_id = 0
        self._timeout = session_timeout
        self._only_reads = only_reads
        self._link: _Link | None = None
        self._numbers = itertools.count(1)
        self._waiting: deque[_Asked] = deque()
        self._asked: dict[int, _Asked] = {}
        self._watches: dict[int, ServerWatch] = {}
        self._keeping: asyncio.Task[None] | None = None
        self._refused: MetadataError | None = None
        self._opened = False

    async def open(self, timeout: float) -> None:
        """Connect; StoreUnavailable after `timeout` seconds, MetadataError when the server refuses this client."""
        self._keeping = asyncio.create_task(self._keep_connected())
        connected = asyncio.create_task(self.session.wait_for(SessionState.CONNECTED))
        try:
            await asyncio.wait([connected, self._keeping], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # nobody else would end the connecting task
            await self.close()
            raise
        finally:
            connected.cancel()
        if self.session.state is SessionState.CONNECTED:
            return
        await self.close()
        raise self._refused or StoreUnavailable(
            f"no metadata server answers in {self.directory} within {timeout:g} s: check the directory, and that "
            f"`mledger metadata run --dir {self.directory}` (or `mledger up`) runs"
        )

    async def ask(self, request: pb.Request, *, again: bool) -> pb.Answer:
        """Send a request as soon as there is a connection, and return its answer; if cancelled before, it is not sent.

        Raises the error that the server answers, ConnectionGone for a lost request that is not to be sent `again`,
        SessionExpired, or StoreClosed.
        """
        return await self._ask(_Asked(request, asyncio.get_running_loop().create_future(), again))

    async def watch(self, path: str, children: bool, tell: Callable[[NodeChange], None]) -> ServerWatch:
        """Set a watch that calls `tell` until `unwatch`."""
        subscription = ServerWatch(next(self._numbers), path, children, tell)
        self._watches[subscription.watch_id] = subscription
        asked = _Asked(subscription.request(), asyncio.get_running_loop().create_future(), True, subscription)
        try:
            await self._ask(asked)
        except BaseException:
            self.unwatch(subscription)
            raise
        return subscription

    def unwatch(self, subscription: ServerWatch) -> None:
        """Undo `watch`."""
        self._watches.pop(subscription.watch_id, None)
        if self._link is not None and self.session.state is SessionState.CONNECTED:
            unwatch = pb.Request(id=next(self._numbers), unwatch=pb.Unwatch(watch_id=subscription.watch_id))
            self._link.send(unwatch)

    async def close(self) -> None:
        """End the session; wait only briefly for a server that does not answer."""
        leaving = self.session.state is SessionState.CONNECTED
        link = self._link
        self._end(SessionState.CLOSED)
        try:
            if leaving and link is not None:
                link.send(pb.Request(id=next(self._numbers), goodbye=pb.Goodbye()))
                with contextlib.suppress(TimeoutError):
                    async with TimeLimit(CLOSE_LIMIT_S):
                        await asyncio.shield(link.ended)
        finally:  # if cancelled too: nobody else would end the connection and its task
            if link is not None:
                link.transport.abort()
            if self._keeping is not None:
                self._keeping.cancel()
                await asyncio.gather(self._keeping, return_exceptions=True)

    async def _ask(self, asked: _Asked) -> pb.Answer:
        self.session.check()
        if self.session.state is SessionState.CONNECTED:
            self._send(asked)
        else:
            self._waiting.append(asked)
        answer = await asked.answer
        if answer.WhichOneof("body") == "refused":
            raise wire.error_of(answer.refused)
        return answer

    def _send(self, asked: _Asked) -> None:
        assert self._link is not None
        asked.request.id = next(self._numbers)
        self._asked[asked.request.id] = asked
        self._link.send(asked.request)

    # Connected, and again.

    async def _keep_connected(self) -> None:
        delay = FIRST_DELAY_S
        while self.session.state not in ENDED:
            try:
                link = await self._connect()
            except (OSError, TimeoutError, ConnectionGone) as error:
                log.debug("metadata_connect_failed", directory=self.directory, error=error)
                await asyncio.sleep(delay)
                delay = min(delay * 1.5, LONGEST_DELAY_S)
                continue
            except MetadataError as error:
                if self._refused is None:
                    log.warning("metadata_client_refused", directory=self.directory, error=error)
                self._refused = error
                if not self._opened:
                    return
                await asyncio.sleep(LONGEST_DELAY_S)  # a server of this version may come back
                continue
            if link is None:
                return
            delay, self._refused, self._opened = FIRST_DELAY_S, None, True
            self._resume()
            await self._beat(link)
            self._suspend()

    async def _connect(self) -> _Link | None:
        """A greeted connection; None when the session has ended meanwhile."""
        welcome: asyncio.Future[pb.Answer] = asyncio.get_running_loop().create_future()

        def take(answer: pb.Answer) -> None:
            if not welcome.done():
                welcome.set_result(answer)
            else:
                self._take(answer)

        link: _Link
        _, link = await asyncio.get_running_loop().create_unix_connection(
            lambda: _Link(take), sock=connect(self.directory)
        )

        def gone(_: object) -> None:
            if not welcome.done():
                welcome.set_exception(ConnectionGone())

        link.ended.add_done_callback(gone)
        try:
            hello = pb.Hello(
                protocol=wire.PROTOCOL,
                session_id=self.session_id,
                timeout_ms=max(1, round(self._timeout * 1000)),
                only_reads=self._only_reads,
            )
            link.send(pb.Request(id=next(self._numbers), hello=hello))
            async with TimeLimit(self._timeout):  # the answer follows a sync, which a slow disk may hold up for long
                answer = await welcome
            match answer.WhichOneof("body"):
                case "welcome":
                    self.session_id = answer.welcome.session_id
                    self._link = link
                    return link
                case "refused":
                    raise wire.error_of(answer.refused)
                case _:
                    self._end(SessionState.EXPIRED)
        except BaseException:
            link.transport.abort()
            raise
        link.transport.abort()
        return None

    async def _beat(self, link: _Link) -> None:
        """Send heartbeats until the server no longer answers."""
        loop = asyncio.get_running_loop()
        every = self._timeout / HEARTBEATS
        while not link.ended.done():
            await asyncio.wait([link.ended], timeout=every)
            if loop.time() - link.heard_at > every * (HEARTBEATS - 1):
                link.transport.abort()
                return
            link.send(pb.Request(id=next(self._numbers), ping=pb.Ping()))

    def _resume(self) -> None:
        self.session.change(SessionState.CONNECTED)
        for subscription in self._watches.values():
            if subscription.armed:
                self._set_again(subscription)
        while self._waiting:
            asked = self._waiting.popleft()
            if not asked.answer.done():
                self._send(asked)

    def _set_again(self, subscription: ServerWatch) -> None:
        answer: asyncio.Future[pb.Answer] = asyncio.get_running_loop().create_future()

        def is_set(done: "asyncio.Future[pb.Answer]") -> None:
            if not done.cancelled() and done.exception() is None:
                subscription.tell(NodeChange.UNKNOWN)

        answer.add_done_callback(is_set)
        self._send(_Asked(subscription.request(), answer, again=False))

    def _suspend(self) -> None:
        self._link = None
        self.session.change(SessionState.SUSPENDED)
        asked, self._asked = list(self._asked.values()), {}
        for each in asked:
            if each.answer.done():
                continue
            if each.again:
                self._waiting.append(each)
            else:
                each.answer.set_exception(ConnectionGone())

    # What comes in.

    def _take(self, answer: pb.Answer) -> None:
        match answer.WhichOneof("body"):
            case "event":
                subscription = self._watches.get(answer.event.watch_id)
                if subscription is not None:
                    subscription.tell(wire.change_of(answer.event))
            case "expired":
                self._end(SessionState.EXPIRED)
            case body:
                asked = self._asked.pop(answer.id, None)
                if asked is None or asked.answer.done():
                    return
                if asked.arms is not None and body == "done":
                    asked.arms.armed = True
                asked.answer.set_result(answer)

    def _end(self, state: SessionState) -> None:
        self.session.change(state)
        error = self.session.ended()
        assert error is not None
        for asked in (*self._waiting, *self._asked.values()):
            if not asked.answer.done():
                asked.answer.set_exception(error)
        self._waiting.clear()
        self._asked.clear()
