"""The HTTP server of a broker: aiohttp, which is loaded when the first connection comes.

Loading it takes longer than a broker's whole start, and a broker that nobody asks over HTTP needs none. A request has
limits of size and time, and a connection that sends none is closed.
"""

import asyncio
import importlib
import socket
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from mledger.broker.admin_rest.refusals import refusal_body
from mledger.broker.admin_rest.requests import JSON, AdminAnswer, AdminRequest, AnswerRequest
from mledger.broker.periodic_check import PeriodicCheck
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.http import HttpRequest, Route
from mledger.metastore.runtime.network.listening_port import BACKLOG
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.runtime.network.tls_listener import RenewedCertificates, TlsListener

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest, Server, StreamResponse
    from aiohttp.web_protocol import RequestHandler

log = get_logger(__name__)

MOST_CONNECTIONS = 256
LARGEST_BODY = 5 << 20
"""Of a request, in bytes: more than the largest schema that a node or an entry can hold."""
MOST_ARRIVING = 64 << 20
"""Bytes of bodies that arrive at the same time: who sends them is asked only when a request is whole."""
MOST_PARAMETERS = 64
RECEIVED_WITHIN_S = 30.0
ANSWERED_WITHIN_S = 60.0
_LOOK_EVERY_S = 5.0
_CUT_AFTER_S = 0.01
"""How long connections last at the end, busy or idle. The library takes 0 for no limit."""
_LIBRARY = "aiohttp.web"
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
_WHO = ("Authorization", "X-Original-Principal")
"""Headers that say who the client is. Of two, a proxy may have checked, or added, the one that is not read here."""


class TooMuchArriving(Exception):
    """The bodies that arrive exceed what the server takes at once."""


class LibraryLog:
    """What the library logs: of bytes that are no request only that they came, since they may hold credentials."""

    def debug(self, *said: object, **more: object) -> None:
        """Nothing that an operator needs."""

    def exception(self, said: str, *values: object, exc_info: BaseException | None = None) -> None:
        """Log why the library could not go on with a connection."""
        from aiohttp.http_exceptions import HttpProcessingError

        client = values[0] if values else None
        if isinstance(exc_info, ConnectionError):
            log.info("http_client_gone", client=client)
        elif isinstance(exc_info, HttpProcessingError):
            log.warning("http_request_refused", client=client, reason=type(exc_info).__name__)
        else:
            log.error("http_connection_failed", client=client, error=exc_info or said)


class AdminHttpServer:
    """Serves `paths`, everything `below` others, and passes all other requests to `answer`."""

    def __init__(
        self,
        answer: AnswerRequest,
        paths: Mapping[str, Route],
        below: Mapping[str, Route] | None = None,
        *,
        modules: Sequence[str] = (),
    ) -> None:
        """`modules` are what the answers need, imported with the library."""
        self._modules = modules
        self._answer = answer
        self._paths = paths
        self._below = below or {}
        self._listener: socket.socket | None = None
        self._loading: asyncio.Task[None] | None = None
        self.check = PeriodicCheck("idle HTTP connections", lambda: _LOOK_EVERY_S, self._look)
        self._certificates: RenewedCertificates | None = None
        self._server: asyncio.Server | TlsListener | None = None
        self._idle: dict[RequestHandler, float] = {}
        self._receiving: dict[RequestHandler, None] = {}  # oldest first; their requests are not whole yet
        self._busy: set[RequestHandler] = set()
        self._arriving = 0

    def start_on(self, listener: socket.socket, certificates: RenewedCertificates | None = None) -> None:
        """Serve at a socket that listens already, from its first connection on; encrypted if there are certificates."""
        listener.setblocking(False)
        self._certificates = certificates
        self._listener = listener
        asyncio.get_running_loop().add_reader(listener, self._first)

    async def close(self) -> None:
        """Stop listening and end the answers in progress."""
        if self._listener is not None and self._loading is None:
            asyncio.get_running_loop().remove_reader(self._listener)
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
        self.check.stop()
        if self._server is not None:
            self._server.close()
        connections = [*self._idle, *self._receiving, *self._busy]
        await asyncio.gather(*(each.shutdown(_CUT_AFTER_S) for each in connections))

    def _first(self) -> None:
        assert self._listener is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        self._loading = loop.create_task(self._load())

    async def _load(self) -> None:
        """Load the library on a thread, since messages flow meanwhile, and begin to accept connections."""
        loop = asyncio.get_running_loop()
        try:
            web = await asyncio.to_thread(self._import)
        except ImportError as error:
            log.error("http_not_served", error=error, hint="install aiohttp")
            return
        said: Any = LibraryLog()  # has those of a logger's methods that the library calls
        serve = self._counting(web.Server)(self._serve, access_log=None, auto_decompress=False, logger=said)
        assert self._listener is not None
        if self._certificates is None:
            self._server = await loop.create_server(serve, sock=self._listener, backlog=BACKLOG)
        else:
            self._server = TlsListener(self._listener, serve, self._certificates)
        self.check.start()

    def _import(self) -> ModuleType:
        for module in self._modules:
            importlib.import_module(module)
        return importlib.import_module(_LIBRARY)

    def _counting(self, library_server: "type[Server]") -> "type[Server]":
        """The library's server, which tells of each connection when it begins and when it ends."""

        from aiohttp.web_protocol import RequestHandler

        class PlainHandler(RequestHandler):
            def handle_error(self, *told: Any, **more: Any) -> "StreamResponse":
                """Answer bytes that are no request without repeating them: they may hold credentials."""
                answer: Any = super().handle_error(*told, **more)
                answer.text, answer.content_type = refusal_body("this is no HTTP request").decode(), JSON
                answer.headers["Server"] = "mledger"
                return answer  # type: ignore[no-any-return]

        class CountingServer(library_server):  # type: ignore[misc, valid-type]
            def __call__(server) -> RequestHandler:  # noqa: N805
                return PlainHandler(server, loop=server._loop, **server._kwargs)

            def connection_made(server, handler: "RequestHandler", transport: asyncio.Transport) -> None:  # noqa: N805
                super().connection_made(handler, transport)
                self._connected(handler, transport)

            def connection_lost(server, handler: "RequestHandler", exc: BaseException | None = None) -> None:  # noqa: N805
                super().connection_lost(handler, exc)
                self._idle.pop(handler, None)
                self._receiving.pop(handler, None)

        return CountingServer

    def _connected(self, connection: "RequestHandler", transport: asyncio.Transport) -> None:
        """Admit a connection; where there are too many, in the place of one whose client waits for nothing.

        That is the one that has been idle longest, else the one whose request takes longest to arrive: of strangers,
        too, who would else keep all others out with requests that they never finish.
        """
        if len(self._idle) + len(self._receiving) + len(self._busy) >= MOST_CONNECTIONS:
            waiting = next(iter(self._idle), None) or next(iter(self._receiving), None)
            if waiting is None:
                transport.abort()
                return
            self._cut(waiting)
        self._idle[connection] = asyncio.get_running_loop().time()

    async def _look(self, _: float) -> None:
        """Cut connections on which no request came for too long."""
        oldest = asyncio.get_running_loop().time() - RECEIVED_WITHIN_S
        for connection, since in list(self._idle.items()):
            if since < oldest:
                self._cut(connection)

    def _cut(self, waiting: "RequestHandler") -> None:
        self._idle.pop(waiting, None)
        self._receiving.pop(waiting, None)
        if waiting.transport is not None:
            waiting.transport.abort()

    async def _serve(self, asked: "BaseRequest") -> "StreamResponse":
        from aiohttp.web import Response

        connection = asked.protocol
        self._idle.pop(connection, None)
        self._receiving[connection] = None
        try:
            answer = await self._answered(asked)
        finally:
            self._receiving.pop(connection, None)
            self._busy.discard(connection)
            if connection.transport is not None:
                self._idle[connection] = asyncio.get_running_loop().time()
        headers = {"Server": "mledger"} | {name: _header(value) for name, value in answer.headers.items()}
        if answer.body:
            headers["Content-Type"] = answer.content_type
        return Response(status=answer.status, body=answer.body or None, headers=headers)

    async def _answered(self, asked: "BaseRequest") -> AdminAnswer:
        try:
            async with TimeLimit(RECEIVED_WITHIN_S):
                request = await self._received(asked)
        except TimeoutError:
            return _refusal(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time")
        except ValueError as error:
            return _refusal(HTTPStatus.BAD_REQUEST, str(error))
        except TooMuchArriving:
            return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many large requests arrive at once: try again later")
        if request is None:
            return _refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has {LARGEST_BODY} bytes at most")
        self._receiving.pop(asked.protocol, None)
        self._busy.add(asked.protocol)
        try:
            async with TimeLimit(ANSWERED_WITHIN_S):
                return await self._of_path(request)
        except TimeoutError:
            why = f"it is not done within {ANSWERED_WITHIN_S:g} s; what has begun goes on: look before you try again"
            return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, why)
        except Exception:
            log.exception("http_request_failed", target=request.path)
            return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "the request failed: the broker's log says why")

    async def _received(self, asked: "BaseRequest") -> AdminRequest | None:
        """The whole request, None if it is too large. ValueError if it is none that can be answered."""
        path, _, query = asked.raw_path.partition("?")
        if not path.startswith("/") or asked.method not in _METHODS:
            raise ValueError("the request line is not one of a request to this server")
        if asked.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise ValueError("send the body as it is, without Content-Encoding")
        twice = [name for name in _WHO if len(asked.headers.getall(name, ())) > 1]
        if twice:
            raise ValueError(f"the header {twice[0]} is there more than once: send it once")
        parameters = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=MOST_PARAMETERS))
        body = bytearray()
        if (asked.content_length or 0) > LARGEST_BODY:
            return None
        try:
            async for chunk in asked.content.iter_any():
                body += chunk
                self._arriving += len(chunk)
                if len(body) > LARGEST_BODY:
                    return None
                if self._arriving > MOST_ARRIVING:
                    raise TooMuchArriving
        finally:
            self._arriving -= len(body)
        headers = {name.lower(): value for name, value in asked.headers.items()}
        certificate = asked.get_extra_info("peercert") or None
        path = path.rstrip("/") or "/"
        return AdminRequest(asked.method, path, parameters, headers, bytes(body), asked.secure, certificate)

    async def _of_path(self, request: AdminRequest) -> AdminAnswer:
        below = (route for root, route in self._below.items() if request.path.startswith(f"{root}/"))
        route = self._paths.get(request.path) or next(below, None)
        if route is None:
            return await self._answer(request)
        if request.method not in ("GET", "HEAD"):
            return _refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.path} takes GET")
        found = await route(
            HttpRequest(request.headers, request.path, request.query, request.encrypted, request.certificate)
        )
        headers = {"Location": found.location} if found.location else {}
        return AdminAnswer(found.status, found.body, found.content_type, headers)


def _refusal(status: HTTPStatus, reason: str) -> AdminAnswer:
    return AdminAnswer(status, refusal_body(reason), JSON)


def _header(value: str) -> str:
    """The value without what ends a header."""
    return "".join(character if character.isprintable() else "?" for character in value)
