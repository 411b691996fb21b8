"""A small HTTP server for metrics and health, on a process's own loop: GET and HEAD, one answer per connection."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct, field

from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.time_limit import TimeLimit

log = get_logger(__name__)

REQUEST_TIMEOUT_S = 30.0
MOST_CONNECTIONS = 32
_LARGEST_HEAD = 16 << 10
_TEXT = "text/plain; charset=utf-8"


class HttpResponse(Struct, frozen=True):
    """The answer for a path."""

    body: bytes
    content_type: str = _TEXT
    status: HTTPStatus = HTTPStatus.OK
    location: str = ""  # of a redirect


class HttpRequest(Struct, frozen=True):
    """A request: its headers by lower-case name, the path without a slash at its end, and what follows its `?`.

    `certificate` is the client's, verified, as `getpeercert` gives it; None if it has shown none.
    """

    headers: Mapping[str, str]
    path: str = "/"
    query: Mapping[str, str] = field(default_factory=dict)
    encrypted: bool = False
    certificate: Mapping[str, Any] | None = None


Route = Callable[[HttpRequest], Awaitable[HttpResponse]]


class HttpServer:
    """Serves some paths until it is closed, and everything below others."""

    def __init__(self, routes: Mapping[str, Route], below: Mapping[str, Route] | None = None) -> None:
        self._routes = routes
        self._below = below or {}
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; the port, a free one for 0. OSError when it is taken."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=_LARGEST_HEAD)
        return int(self._server.sockets[0].getsockname()[1])

    async def start_on(self, listener: socket.socket) -> None:
        """Serve at a socket that listens already."""
        self._server = await asyncio.start_server(self._serve, sock=listener, limit=_LARGEST_HEAD)

    async def close(self) -> None:
        """Stop listening and end the answers in progress."""
        if self._server is not None:
            self._server.close()
        for handler in list(self._handlers):
            handler.cancel()
        if self._handlers:
            await asyncio.wait(self._handlers)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handler = asyncio.current_task()
        assert handler is not None
        try:
            if len(self._handlers) >= MOST_CONNECTIONS:
                return
            self._handlers.add(handler)
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                async with TimeLimit(REQUEST_TIMEOUT_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                method, answer = await self._answer(head)
                async with TimeLimit(REQUEST_TIMEOUT_S):
                    writer.write(_encode(answer, with_body=method != "HEAD"))
                    await writer.drain()
        finally:
            self._handlers.discard(handler)
            writer.close()

    async def _answer(self, head: bytes) -> tuple[str, HttpResponse]:
        line, *lines = head.decode("iso-8859-1").split("\r\n")
        method, _, rest = line.partition(" ")
        target, _, version = rest.rpartition(" ")
        if not version.startswith("HTTP/1.") or not target.startswith("/"):
            return method, _refusal(HTTPStatus.BAD_REQUEST)
        try:
            split = urlsplit(target)
        except ValueError:  # a bracket without its end
            return method, _refusal(HTTPStatus.BAD_REQUEST)
        path = split.path.rstrip("/") or "/"
        route = self._route(path)
        if route is None:
            return method, _refusal(HTTPStatus.NOT_FOUND, f"there is: {' '.join(self._routes)}")
        if method not in ("GET", "HEAD"):
            return method, _refusal(HTTPStatus.METHOD_NOT_ALLOWED)
        headers = {name.strip().lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
        try:
            return method, await route(HttpRequest(headers, path, dict(parse_qsl(split.query))))
        except Exception:
            log.exception("http_request_failed", target=target)
            return method, _refusal(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _route(self, path: str) -> Route | None:
        below = (route for root, route in self._below.items() if path.startswith(f"{root}/"))
        return self._routes.get(path) or next(below, None)


def _refusal(status: HTTPStatus, hint: str = "") -> HttpResponse:
    return HttpResponse(f"{status.phrase}{': ' if hint else ''}{hint}\n".encode(), status=status)


def _encode(answer: HttpResponse, *, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\nDate: {formatdate(usegmt=True)}\r\nConnection: close\r\n"
    )
    head += f"Location: {answer.location}\r\n\r\n" if answer.location else "\r\n"
    return head.encode("iso-8859-1") + (answer.body if with_body else b"")
