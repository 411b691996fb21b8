"""One ZooKeeper session over kazoo, for one event loop.

Kazoo's connection thread passes replies and state changes in a queue and wakes the loop once per batch. Requests are
pipelined, at most WINDOW at a time. Those that wait for the window, or for a lost connection, wait here, not in kazoo.
"""

import asyncio
import contextlib
import importlib.util
import socket
import ssl
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionLoss, SessionExpiredError, ZookeeperError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import Connect, Exists
from kazoo.protocol.serialization import Watch as WatchEvent
from kazoo.protocol.states import KazooState, KeeperState

from mledger.metastore.errors import MetadataAccessDenied, MetadataError, StoreUnavailable
from mledger.metastore.runtime.logs.loggers import get_logger, library_logger
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.session import ENDED, Session
from mledger.metastore.store import SessionState
from mledger.metastore.zookeeper.security import Security

log = get_logger(__name__)

WINDOW = 128  # kazoo's wake-up pipe takes some 270 before a sender, here the loop, blocks
THREAD_SWITCH_S = 0.0005
CLOSE_GRACE_S = 1.0
CLOSE_LIMIT_S = 3.0
RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 1.5, "max_delay": 1.0}
ATTEMPTS_A_SESSION = 4  # a server that is just starting may take a connection and never answer on it


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Kazoo's threads, with a time-out on connecting that leaves time for other servers and attempts."""

    failure: Exception | None = None  # of the last attempt to connect

    def create_connection(self, *args: Any, **options: Any) -> Any:
        try:
            return super().create_connection(*args, **options | {"timeout": options["timeout"] / ATTEMPTS_A_SESSION})
        except Exception as error:
            self.failure = error
            raise

    def select(self, readers: Any, *others: Any, **options: Any) -> Any:
        """As the system's, but what a TLS connection has decrypted already counts as there to be read."""
        decrypted = [each for each in readers if isinstance(each, ssl.SSLSocket) and each.pending()]
        if not decrypted:
            return super().select(readers, *others, **options)
        ready = super().select(readers, *others[:-1], 0, **options) if others else ([], [], [])
        return [*decrypted, *(each for each in ready[0] if each not in decrypted)], ready[1], ready[2]


class Withdrawable:
    """A write for kazoo that its caller can withdraw before it is sent: a harmless read is then sent instead.

    A write that timed out is read back and perhaps repeated (M7); it must not be carried out minutes later.
    """

    def __init__(self, request: Any, data: bytes) -> None:
        """Stand for `request`, whose bytes are `data`."""
        self._request = request
        self._data = data
        self._sent: Any = None
        self.withdrawn = False

    @property
    def type(self) -> int:
        """The operation's code; kazoo asks for it first when it comes to send, which settles what is sent."""
        if self._sent is None:
            self._sent = Exists("/", None) if self.withdrawn else self._request
        code: int = self._sent.type
        return code

    def serialize(self) -> bytes:
        """The bytes of what is sent."""
        return self._data if self._sent is self._request else bytes(self._sent.serialize())

    def deserialize(self, buffer: bytes, offset: int) -> Any:
        """The reply to what was sent."""
        return self._sent.deserialize(buffer, offset)


class _Reply:
    """Where kazoo puts a request's outcome; it may do so twice, and the first one counts."""

    __slots__ = ("_inbox", "error", "future", "taken", "value")

    def __init__(self, inbox: "Inbox", future: asyncio.Future[Any]) -> None:
        self._inbox = inbox
        self.future = future
        self.taken = False
        self.value: Any = None
        self.error: Exception | None = None

    def set(self, value: Any = None) -> None:
        self.value = value
        self._inbox.put(self)

    def set_exception(self, error: Exception) -> None:
        self.error = error
        self._inbox.put(self)


class Inbox:
    """Items that other threads leave for the loop, in order, with one wake-up for all that have gathered."""

    def __init__(self, take: Callable[[list[Any]], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._take = take
        self._items: deque[Any] = deque()
        self._woken = False

    def put(self, item: Any) -> None:
        """Leave `item`; from any thread."""
        self._items.append(item)
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._empty)
            except RuntimeError:  # the loop has ended without closing the store: nobody waits any more
                log.debug("reply_after_loop")

    def _empty(self) -> None:
        self._woken = False
        items = []
        while self._items:
            items.append(self._items.popleft())
        self._take(items)


class ZooKeeperConnection:
    """A session: `submit` requests, watch its state in `session`."""

    def __init__(self, hosts: str, url: str, session_timeout: float, security: Security = Security()) -> None:  # noqa: B008 - frozen
        """Prepare for `hosts` (`host:port,…`); `open` connects. Times in seconds."""
        self.hosts = hosts
        self.session = Session(url, SessionState.SUSPENDED)
        self.session_id = 0
        self._inbox = Inbox(self._take)
        self._in_flight = 0
        self._waiting: deque[tuple[Any, asyncio.Future[Any]]] = deque()
        self._shut_down_done: asyncio.Event | None = None
        # Kazoo waits for an answer to its greeting for a session's length divided by the number of hosts.
        greeted = ",".join([hosts] * -(-ATTEMPTS_A_SESSION // len(hosts.split(","))))
        if security.sasl is not None and importlib.util.find_spec("puresasl") is None:
            raise MetadataError(f"a login at {hosts} by SASL needs a package: pip install 'mledger[sasl]'")
        self._logs_in = security.logs_in
        self._refused = False
        self._handler = _Handler()
        self._client = KazooClient(
            greeted,
            timeout=session_timeout,
            handler=self._handler,
            connection_retry=RECONNECT,
            logger=library_logger("mledger.metastore.zookeeper"),
            **_login(security),
        )
        self._client.add_listener(self._state_changed)
        self._event_listeners: list[Callable[[str], None]] = []
        connection = self._client._connection
        connection._read_watch_event = _events_told(connection._read_watch_event, self._heard)
        connection._invoke = self._as_granted(connection._invoke)
        if security.sasl is not None:
            connection._authenticate_with_sasl = _refusals_named(connection._authenticate_with_sasl)

    async def open(self, timeout: float) -> None:
        """Connect; StoreUnavailable after `timeout` seconds, or when the system has no socket for it.

        An opening that fails or is cancelled leaves no session behind.
        """
        sys.setswitchinterval(THREAD_SWITCH_S)
        opened = False
        try:
            self._client.start_async()
            async with TimeLimit(timeout):
                await self.session.wait_for_any((SessionState.CONNECTED, *ENDED))
                self.session.check()
                if self._logs_in:  # kazoo is connected before the login is through: an answer shows that it is
                    await self.submit(Exists("/", None))
            opened = True
        except TimeoutError:
            raise StoreUnavailable(
                f"no ZooKeeper answers at {self.hosts} within {timeout:g} s{self._last_failure()}: check the address, "
                "and that one runs there"
            ) from None
        except (MetadataError, AuthFailedError, ConnectionLoss, SessionExpiredError):
            if self._refused:
                raise MetadataAccessDenied(f"ZooKeeper at {self.hosts} refused the login: check it") from None
            raise StoreUnavailable(f"the connection to ZooKeeper at {self.hosts} was lost while logging in") from None
        except OSError as error:
            raise StoreUnavailable(f"no session with ZooKeeper at {self.hosts} can be begun here: {error}") from error
        finally:
            if not opened:
                await self.close()

    async def submit(self, request: Any) -> Any:
        """Send `request` as soon as there is a connection and a place in the window; its result.

        Raises what kazoo raises, SessionExpired or StoreClosed. Cancelling the caller withdraws a `Withdrawable`.
        """
        self.session.check()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        self._send()
        try:
            return await future
        except asyncio.CancelledError:
            if isinstance(request, Withdrawable):
                request.withdrawn = True
            raise

    def forget_watch(self, path: str, watcher: Callable[..., None]) -> None:
        """Have kazoo no longer call `watcher` for `path`."""
        for watchers in (self._client._data_watchers, self._client._child_watchers):
            if path in watchers:
                watchers[path].discard(watcher)

    def listen_to_events(self, listener: Callable[[str], None]) -> None:
        """Have `listener` called on the loop with the node of each event, in the order of the replies."""
        self._event_listeners = [*self._event_listeners, listener]

    def unlisten_to_events(self, listener: Callable[[str], None]) -> None:
        """Undo `listen_to_events`."""
        self._event_listeners = [each for each in self._event_listeners if each != listener]

    def _heard(self, path: str) -> None:
        """An event has come, on kazoo's thread; kazoo itself would hand it to another one, past the replies."""
        for listener in self._event_listeners:
            self._inbox.put(partial(listener, path))

    def call(self, function: Callable[[], None]) -> None:
        """Call `function` on the loop, after all that came before it; from any thread."""
        self._inbox.put(function)

    async def close(self) -> None:
        """End the session; wait only a few seconds for a server that does not answer."""
        self.session.change(SessionState.CLOSED)
        if self._shut_down_done is None:
            self._shut_down_done = asyncio.Event()
            threading.Thread(target=self._shut_down, args=[self._shut_down_done], daemon=True).start()
        with contextlib.suppress(TimeoutError):  # kazoo's thread may still be connecting; it ends by itself
            async with TimeLimit(CLOSE_LIMIT_S):
                await self._shut_down_done.wait()

    def _send(self) -> None:
        while self._waiting and self._in_flight < WINDOW and self.session.state is SessionState.CONNECTED:
            request, future = self._waiting.popleft()
            if not future.done():
                self._in_flight += 1
                self._client._call(request, _Reply(self._inbox, future))

    def _take(self, items: list[Any]) -> None:
        for item in items:
            if isinstance(item, _Reply):
                self._settle(item)
            elif isinstance(item, SessionState):
                self.session.change(item)
            else:
                item()
        if error := self.session.ended():
            while self._waiting:
                _, future = self._waiting.popleft()
                if not future.done():
                    future.set_exception(error)
        self._send()

    def _settle(self, reply: _Reply) -> None:
        if reply.taken:
            return
        reply.taken = True
        self._in_flight -= 1
        if reply.future.done():
            return
        if reply.error is not None:
            reply.future.set_exception(reply.error)
        else:
            reply.future.set_result(reply.value)

    def _state_changed(self, state: str) -> None:
        """Kazoo's listener, on its connection thread."""
        if state == KazooState.CONNECTED:
            self.session_id = self._client.client_id[0]
            self._inbox.put(SessionState.CONNECTED)
        elif state == KazooState.SUSPENDED:
            self._inbox.put(SessionState.SUSPENDED)
        else:
            self._refused = self._client.client_state == KeeperState.AUTH_FAILED
            if self._client.client_state == KeeperState.EXPIRED_SESSION:
                self._client._stopped.set()  # else kazoo would go on with a new session under the same name
            self._inbox.put(SessionState.EXPIRED)  # after our own close, CLOSED stays

    def _as_granted(self, invoke: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap kazoo's `invoke` so that it asks again for the session's length that a server has granted.

        It waits for the next greetings by the length that it asks for; a silent server must not outlast the session.
        """

        def granted(timeout: float, request: Any, xid: int | None = None) -> Any:
            reply = invoke(timeout, request, xid)
            if isinstance(request, Connect) and reply[0].time_out > 0:
                self._client._session_timeout = reply[0].time_out
            return reply

        return granted

    def _last_failure(self) -> str:
        failure = self._handler.failure
        return f" (TLS: {failure})" if isinstance(failure, ssl.SSLError) else ""

    def _shut_down(self, done: asyncio.Event) -> None:
        """Close kazoo's client, which blocks; on a thread."""
        cutter = threading.Timer(CLOSE_GRACE_S, self._cut)
        cutter.daemon = True
        cutter.start()
        try:
            self._client.stop()
            self._client.handler.stop()
            self._client._connection.stop(CLOSE_GRACE_S)
            self._client.close()
        except Exception as error:
            log.warning("session_close_failed", hosts=self.hosts, error=error)
        cutter.cancel()
        self._inbox.put(done.set)

    def _cut(self) -> None:
        """Break the connection of a server that does not answer our goodbye."""
        connection = self._client._connection._socket
        if connection is not None:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError as error:
                log.debug("zookeeper_connection_gone", hosts=self.hosts, error=error)


def _refusals_named(log_in: Callable[[str, float], None]) -> Callable[[str, float], None]:
    """Wrap `log_in` so that an error answered by the server is a refused login: it would end kazoo's thread."""

    def named(host: str, timeout: float) -> None:
        try:
            log_in(host, timeout)
        except ZookeeperError as error:
            raise AuthFailedError(*error.args) from error

    return named


def _events_told(read: Callable[[bytes, int], None], heard: Callable[[str], None]) -> Callable[[bytes, int], None]:
    """Wrap kazoo's `read` of an event so that `heard` gets its path first."""

    def told(buffer: bytes, offset: int) -> None:
        heard(WatchEvent.deserialize(buffer, offset)[0].path)
        read(buffer, offset)

    return told


def _login(security: Security) -> dict[str, Any]:
    """The login in kazoo's terms."""
    options: dict[str, Any] = {}
    if security.digests:
        options["auth_data"] = [("digest", digest) for digest in security.digests]
    if security.sasl is not None:
        sasl = security.sasl
        options["sasl_options"] = {"mechanism": sasl.mechanism, "service": sasl.service}
        if sasl.username:
            options["sasl_options"] |= {"username": sasl.username, "password": sasl.password}
    if security.tls is not None:
        tls = security.tls
        options |= {"use_ssl": True, "ca": tls.authorities or None, "check_hostname": tls.check_hostname}
        if tls.certificate:
            options |= {"certfile": tls.certificate, "keyfile": tls.certificate}
            options["keyfile_password"] = tls.password or None
    return options


def is_connection_loss(error: Exception) -> bool:
    """Whether a request was lost with its connection; it may have been carried out."""
    return isinstance(error, ConnectionLoss)
