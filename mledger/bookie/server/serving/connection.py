"""One client's connection: its receive buffer, its requests in order, and back-pressure in both directions.

A connection speaks version 3 until its first version 2 frame, then version 2 for good.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from mledger.bookie import request_frames, version3_wire, wire
from mledger.bookie.errors import Code
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb
from mledger.bookie.server.serving import version3_messages
from mledger.bookie.server.serving.auth import AuthFactory
from mledger.bookie.server.serving.certificate_roles import CertificateRoles
from mledger.bookie.server.serving.group_commit import GroupCommit
from mledger.bookie.server.serving.receive_buffer import ReceiveBuffer
from mledger.bookie.server.serving.receive_room import ReceiveRoom
from mledger.bookie.server.serving.version3_service import Version3Service
from mledger.bookie.server.storage.reads import Parts
from mledger.bookie.version3_reads import ReadRun
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.connection_limit import ConnectionLimit
from mledger.metastore.runtime.network.tls_listener import RenewedCertificates

log = get_logger(__name__)

HANDSHAKE_S = 30.0
"""How long a client may take for the handshake of TLS."""

_UNSENT, _TOGETHER = 1 << 20, 256 << 10
_MOST_OWED = 4 << 20
"""Once this many bytes of answers wait for a sync or the disk, the client's next requests wait too."""
_STEP = 4096
"""What a connection may cost before others have their turn; a run of adds costs 1."""
_READ_COST, _OTHER_COST = 4, 16
"""What one of many reads that are answered together costs, and any request that is answered alone."""
_COLD_TRIES = 3
"""How often a read's runs are fetched; between fetch and read they may be moved or evicted."""


class Connection(asyncio.BufferedProtocol):
    """Passes requests to the turns, and writes their answers."""

    def __init__(
        self,
        turns: GroupCommit,
        service: Version3Service,
        max_frame: int = wire.MAX_FRAME,
        auth: AuthFactory | None = None,
        gate: ConnectionLimit | None = None,
        tls: RenewedCertificates | None = None,
        served: "set[Connection] | None" = None,
        room: ReceiveRoom | None = None,
    ) -> None:
        """`served` has the connection as long as it is open; `room` limits the receive buffers of all."""
        self._served = set() if served is None else served
        self._turns, self._service, self._max_frame = turns, service, max_frame
        self._gate, self._admitted = gate, False
        self._tls = tls  # None once the connection is encrypted, or if it cannot be
        self._encrypting: asyncio.Task[None] | None = None
        self._auth = auth() if auth is not None else None
        self._authenticated = auth is None
        self._refusal = "" if auth is None else "it has not authenticated itself"  # told once
        if isinstance(self._auth, CertificateRoles):
            self._refusal = "it is not encrypted, so that it shows no certificate with a role"
        self._version_2 = False
        self._buffer = ReceiveBuffer(room or ReceiveRoom(), self)
        self._requests: Sequence[version3_wire.Request] = []
        self._next = self._answered = 0  # requests taken; reads answered in the next run
        self._waiting = self._choked = self._paused = self._closed = self._held = self._yielded = False
        self._fetching = self._unwritten = 0  # bytes of runs that reads wait for, and of answers
        self._answering, self._answers = False, Parts()
        self._transport: asyncio.Transport
        self._error = self._peer = ""

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_UNSENT)
        host, port, *_ = transport.get_extra_info("peername") or ("?", "?")
        self._peer = f"{host}:{port}"
        if self._gate is not None:
            self._admitted = self._gate.enter(self._peer, transport.get_extra_info("socket"))
            if not self._admitted:
                self._closed = True
                self._transport.abort()
                return
        self._served.add(self)
        log.debug("connected", peer=self._peer)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection; accepted requests stay accepted."""
        if not self._closed and self._next == len(self._requests) and self._buffer and not self._yielded:
            log.warning("closed_inside_frame", peer=self._peer, bytes=len(self._buffer))
        self._closed = True
        self._buffer.end()
        self._served.discard(self)
        self._service.forget(self)
        if self._gate is not None and self._admitted:
            self._gate.leave()
            self._admitted = False
        log.debug("disconnected", peer=self._peer, error=exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to receive: the rest of the buffer, never empty while reading goes on."""
        return self._buffer.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Take the received bytes, unless adds wait for the turn: then they are taken with those."""
        self._buffer.received(nbytes)
        if not self._waiting and not self._yielded:
            self._go_on()
        if self._buffer.full or not self._buffer:
            self.make_room()

    def pause_writing(self) -> None:
        """Take no more requests while the client does not read its answers."""
        self._choked = True

    def resume_writing(self) -> None:
        """Take requests again."""
        self._choked = False
        self._resume()

    def _resume(self) -> None:
        if not self._waiting and not self._yielded:
            self._go_on()
            self.make_room()

    def end(self) -> None:
        """End the connection because the bookie ends; of the answers, the client gets what it reads at once."""
        self._write_answers()
        self._closed = True
        if self._encrypting is not None:
            self._encrypting.cancel()
        elif self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once, without the answers that wait."""
        self._closed, self._answers = True, []
        if self._encrypting is not None:
            self._encrypting.cancel()
        self._transport.abort()

    # The turns' side.

    @property
    def unsent(self) -> int:
        """Bytes of answers that the client has not taken yet."""
        return 0 if self._closed else self._unwritten + self._transport.get_write_buffer_size()

    def send(self, parts: Parts) -> None:
        """Write responses; those to requests of one receive buffer are sent together."""
        if self._closed:
            return
        if not self._answering and self._encrypting is None:
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
            return
        self._answers += parts
        self._unwritten += sum(map(len, parts))
        if self._unwritten > _TOGETHER:
            self._write_answers()

    def take(self) -> None:
        """Take the adds that waited."""
        self._waiting = False
        self._resume()

    # Requests, in order.

    def _go_on(self) -> None:
        self._answering = True
        try:
            self._take_requests()
        except Exception as error:
            log.exception("request_failed", peer=self._peer, error=error)
            self._close(f"internal error: {error}")
        finally:
            self._answering = False
            self._write_answers()

    def _write_answers(self) -> None:
        if self._encrypting is not None:
            return
        if self._answers and not self._transport.is_closing():
            self._transport.write(b"".join(self._answers))
        self._answers, self._unwritten = [], 0

    def _take_requests(self) -> None:
        left = _STEP
        while left > 0 and self._may_take():
            if self._next < len(self._requests):
                cost = self._take_request(self._requests[self._next])
                if not cost:
                    return
                left -= cost
            elif self._error:
                self._close(self._error)
            elif self._add_must_wait() or not self._find_requests():
                return
        if left <= 0:
            self._yielded = True
            asyncio.get_running_loop().call_soon(self._continue)

    def _may_take(self) -> bool:
        return not self._closed and not self._choked and not self._held and self._encrypting is None

    def _take_request(self, request: version3_wire.Request) -> int:
        """Take a request, or the reads of a run that are answered together. What that costs; 0: it waits."""
        cost = 1
        if isinstance(request, request_frames.AddRun):
            if self._authenticated and self._turns.busy:
                self._wait()
                return 0
            self._add(request)
        elif self._turns.owed(self) > _MOST_OWED:
            self._wait()
            return 0
        elif isinstance(request, ReadRun):
            if (cost := self._reads(request)) and self._answered < len(request):
                return cost
            self._answered = 0
        else:
            self._other(bytes(memoryview(self._buffer.data)[request.start : request.end]))
            cost = _OTHER_COST
        self._next += 1
        return cost

    def _continue(self) -> None:
        self._yielded = False
        self._resume()

    def _add_must_wait(self) -> bool:
        """Whether the next request is an add and the turn is full: it is better found together with its successors."""
        size, at, data = len(self._buffer), self._buffer.start, self._buffer.data
        if not self._turns.busy or size < wire.HEAD.size or not self._authenticated:
            return False
        if self._is_version_3():
            add = size > version3_wire.OPERATION_AT and version3_wire.is_add(data, at)
        else:
            add = data[at + 5] == wire.Op.ADD and data[at + 4] <= wire.VERSION
        if add:
            self._wait()
        return add

    def _is_version_3(self) -> bool:
        """Whether the next frame, of which more than the length has arrived, is of version 3."""
        return not self._version_2 and self._buffer.data[self._buffer.start + wire.LENGTH.size] == wire.VERSION_3_TAG

    def _wait(self) -> None:
        self._waiting = True
        self._turns.wait(self)

    def _find_requests(self) -> bool:
        buffer = self._buffer
        if not buffer:
            buffer.next_frame = 0
            return False
        place = buffer.data, buffer.start, buffer.filled, self._max_frame
        if len(buffer) >= wire.HEAD.size and self._is_version_3():
            scan: request_frames.Scan[version3_wire.Request] = version3_wire.scan(*place, adds=self._authenticated)
        else:
            scan = request_frames.scan(*place)
        self._requests, self._next = scan.requests, 0
        buffer.start, buffer.next_frame, self._error = scan.end, scan.next_frame, scan.error
        return bool(scan.requests or scan.error)

    def _add(self, run: request_frames.AddRun) -> None:
        if isinstance(run, version3_wire.TransactionRun):  # occurs on authenticated connections only
            self._turns.add(self, run.frames, run)
            return
        self._version_2 = True
        if self._authenticated:
            self._turns.add(self, self._buffer.data, run)
        else:
            self._log_refusal()
            self.send([run.responses(Code.UNAUTHORIZED)])

    def _reads(self, run: ReadRun) -> int:
        """Answer the next plain reads together, or only the next one, if it needs more than memory; what that cost."""
        number = self._answered
        together = self._service.read(self, run, number)
        if not together:
            self._other(bytes(memoryview(self._buffer.data)[run.starts[number] : run.starts[number + 1]]))
        self._answered += together or 1
        return together * _READ_COST or _OTHER_COST

    def _other(self, frame: bytes) -> None:
        try:
            if frame[4] == wire.VERSION_3_TAG and not self._version_2:
                self._version_3(frame)
                return
            self._version_2 = True
            op = frame[5]
            if op in (wire.Op.READ, wire.Op.BATCH_READ):
                request = wire.decode_read(frame)
                self._when_warm(request.ledger, request.entry, request.batch, partial(self._read, request))
            elif op == wire.Op.AUTH:
                self._handshake(frame)
            elif op == wire.Op.ADD and len(frame) >= wire.ADD_HEAD.size:
                _, header, _, ledger, entry = wire.ADD_HEAD.unpack_from(frame)
                self.send([wire.encode_response(op, Code.BAD_VERSION, ledger, entry, b"", header >> 24)])
            else:
                self._close(f"unknown operation {op} in version {frame[4]}")
        except wire.MalformedFrame as error:
            self._close(str(error))

    def _read(self, request: wire.ReadRequest) -> None:
        if self._authenticated:
            self._turns.read(self, request)
        else:
            self._log_refusal()
            self.send([request.refusal(Code.UNAUTHORIZED)])

    def _when_warm(
        self,
        ledger: int,
        entry: int,
        batch: wire.BatchReadRequest | None,
        serve: Callable[[], None],
        tries: int = _COLD_TRIES,
    ) -> None:
        """Serve a read once its runs are in memory; adds and other reads do not wait for the disk."""
        turns = self._turns
        try:
            rows = turns.reader.cold(turns.ledgers.get(ledger), entry, batch) if self._authenticated and tries else []
        except Exception:  # the index cannot be read: the read is answered with it
            rows = []
        if not rows:
            serve()
            return
        fetching = sum(row.length for row in rows)
        self._fetching += fetching
        self._held = self._held or self._fetching > _MOST_OWED  # `_fetched` resumes
        again = partial(self._when_warm, ledger, entry, batch, serve, tries - 1)
        turns.cold_reads.fetch(rows, partial(self._fetched, fetching, again))

    def _fetched(self, size: int, serve: Callable[[], None]) -> None:
        self._fetching -= size
        if self._closed:
            return
        try:
            serve()
        except Exception as error:
            log.exception("request_failed", peer=self._peer, error=error)
            self._close(f"internal error: {error}")
        if self._held and self._fetching <= _MOST_OWED:
            self._held = False
            self._resume()

    def _handshake(self, frame: bytes) -> None:
        answer = version3_messages.answer_version_2(frame, self._auth, self._authenticated)
        self._authenticated = answer.authenticated
        if answer.close:
            self._close("auth refused")
        else:
            self.send([answer.frame])

    def _version_3(self, frame: bytes) -> None:
        request = version3_messages.open_request(frame[wire.LENGTH.size :])
        if self._tls is not None and version3_messages.starts_tls(request):
            self._start_tls(request, self._tls)
        elif version3_messages.is_handshake(request):
            answer = version3_messages.handshake(request, None if self._authenticated else self._auth)
            self._authenticated = answer.authenticated
            self.send([answer.frame])
            if answer.close:
                self._close("auth refused")
        elif self._authenticated:
            serve = partial(self._service.serve, self, request)
            entry = version3_messages.entry_read(request)
            if entry is None:
                serve()
            else:
                self._when_warm(*entry, None, serve)
        else:
            self._log_refusal()
            self.send([version3_messages.unauthenticated(request)])

    def _log_refusal(self) -> None:
        if self._refusal:
            log.warning("client_refused", peer=self._peer, reason=self._refusal)
            self._refusal = ""

    def _start_tls(self, request: pb.Request, certificates: RenewedCertificates) -> None:
        """Agree to TLS and start the handshake. Bytes that the client sent after its request cannot be trusted."""
        if self._next + 1 < len(self._requests) or self._buffer:
            self._close("bytes behind the request to start TLS")
            return
        self._tls = None
        self._transport.pause_reading()  # the next bytes belong to the handshake
        self.send([version3_messages.tls_agreed(request)])
        self._write_answers()
        self._encrypting = asyncio.get_running_loop().create_task(self._encrypt(certificates))

    async def _encrypt(self, certificates: RenewedCertificates) -> None:
        loop = asyncio.get_running_loop()
        if self._closed:  # a handshake over a connection that has been lost never ends, not even by its time-out
            return
        try:
            encrypted = await loop.start_tls(
                self._transport, self, certificates.current(), server_side=True, ssl_handshake_timeout=HANDSHAKE_S
            )
        except (OSError, asyncio.CancelledError) as error:  # ssl.SSLError is one
            log.warning("tls_handshake_failed", peer=self._peer, error=error)
            self._transport.abort()
            self.connection_lost(error if isinstance(error, Exception) else None)
            return
        self._transport = cast("asyncio.Transport", encrypted)
        self._transport.set_write_buffer_limits(high=_UNSENT)
        self._encrypting = None
        log.debug("tls_started", peer=self._peer, cipher=self._transport.get_extra_info("cipher"))
        if isinstance(self._auth, CertificateRoles):
            self._refusal = self._auth.refusal(self._transport.get_extra_info("peercert"))
            self._authenticated = not self._refusal
            self._log_refusal()
        self._write_answers()
        self._resume()

    def _close(self, reason: str) -> None:
        log.warning("connection_closed", peer=self._peer, reason=reason)
        self._write_answers()
        self._transport.close()
        self._closed = True

    @property
    def awaited_frame(self) -> int:
        """Where, in all that its client sent, the frame begins of which only bytes are missing; -1 if there is none."""
        ours = self._waiting or self._choked or self._held or self._yielded or not self._buffer
        return -1 if ours else self._buffer.frame_at

    def make_room(self) -> None:
        """Move the remaining bytes to the front of a buffer that fits the next frame; stop reading while it is full."""
        if self._closed or self._transport.is_closing():
            return
        if self._next == len(self._requests):
            self._requests, self._next = [], 0
            self._buffer.compact()
        if self._encrypting is not None:
            return  # the next transport is not here yet
        if (full := self._buffer.full) is not self._paused:
            (self._transport.pause_reading if full else self._transport.resume_reading)()
        self._paused = full
