"""One connection to one bookie, shared by ledgers: sends version 2 frames, and matches answers to requests.

Version 2 answers carry no request id, except for batch reads. Reads are matched by ledger and entry in the order of the
requests. Answers to adds go to the ledger's listener, by entry or in runs. A lost connection fails its pending
requests; nothing is retried here.
"""

import asyncio
import functools
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, cast

from mledger.bookie import wire
from mledger.bookie.client.connections.quarantine import Quarantine
from mledger.bookie.errors import BookieUnavailable
from mledger.metastore.runtime.logs.loggers import get_logger

if TYPE_CHECKING:
    import numpy  # imported only for many answers at once, so that short commands start faster

log = get_logger(__name__)

_BATCH_KEY = -2  # in place of an entry id: request ids of batch reads
_FEW = 8  # below this many answers a loop is faster than an array
_EXPIRY_CHECKS = 4  # checks per time-out
_WRITE_HIGH_WATER = 32 << 20
_ANSWER_SLACK = 64  # an answer's head may be longer than that of the request that stored the entry
_ADD_HEADER = wire.header_word(wire.Op.ADD)
_ADD_ANSWER = wire.HEAD.pack(wire.RESPONSE.size - wire.LENGTH.size, _ADD_HEADER)


TOLD_AFTER_S = 1.0
"""Seconds of waiting for a bookie after which, and each time they pass again, `on_waiting` is called."""

WaitingSink = Callable[[str, float], None]
"""Called with a bookie that is waited for, and the seconds waited."""


class AddListener(Protocol):
    """What a connection tells a ledger's writer about its adds."""

    def acknowledged_run(self, connection: "BookieConnection", first: int, last: int) -> None:
        """The bookie stores the entries `first` to `last`."""

    def acknowledged(self, connection: "BookieConnection", entries: list[int]) -> None:
        """The bookie stores `entries`."""

    def refused(self, connection: "BookieConnection", entry: int, code: int) -> None:
        """The bookie answered the add of `entry` with an error."""

    def connection_lost(self, connection: "BookieConnection", reason: str) -> None:
        """No more answers will come from this connection."""

    def writable_again(self, connection: "BookieConnection") -> None:
        """The connection's send buffer has drained."""


class _Waiter:
    __slots__ = ("asked_at", "future")

    def __init__(self, future: asyncio.Future[tuple[int, bytes]], asked_at: float) -> None:
        self.future, self.asked_at = future, asked_at


class BookieConnection(asyncio.Protocol):
    """An open connection to `bookie_id`; made by `BookiePool`."""

    def __init__(
        self,
        bookie_id: str,
        loop: asyncio.AbstractEventLoop,
        *,
        read_timeout_s: float,
        max_answer: int,
        silence_timeout_s: float = float("inf"),
        quarantine: Quarantine | None = None,
        on_waiting: WaitingSink | None = None,
    ) -> None:
        self.bookie_id = bookie_id
        self.closed = False
        self.congested = False
        """Whether the send buffer is over its limit."""
        self.heard_at = float("-inf")
        """When it last received anything (event loop's clock, s). A frozen machine still accepts connections."""
        self.acknowledged_at = float("-inf")
        """When it last received an answer to an add, of any ledger."""
        self.behind = False
        """A read was given up: its late answer would be taken for that of the next read of the same entry."""
        self._loop = loop
        self._read_timeout_s = read_timeout_s
        self._silence_timeout_s = silence_timeout_s
        self._expiry_s = min(min(read_timeout_s, silence_timeout_s) / _EXPIRY_CHECKS, TOLD_AFTER_S)
        self._quarantine = quarantine or Quarantine(0.0, loop.time, lambda _: self.heard_at)
        self._on_waiting = on_waiting
        self._max_answer = max_answer
        self._transport: asyncio.Transport | None = None
        self._chunks: list[bytes] = []
        self._held, self._wanted = 0, 0
        self._listeners: dict[int, AddListener] = {}
        self._waiting: dict[tuple[int, int], deque[_Waiter]] = {}
        self._last_request = 0
        self._expiry: asyncio.TimerHandle | None = None
        self._retired = False

    # What callers do

    def tell_waiting(self, waited_s: float) -> None:
        """Tell `on_waiting`, if that is long enough, that the bookie has been waited for so long."""
        if waited_s >= TOLD_AFTER_S and self._on_waiting is not None:
            self._on_waiting(self.bookie_id, waited_s)

    def listen(self, ledger_id: int, listener: AddListener) -> None:
        """Pass the answers to adds of `ledger_id` to `listener`, until `unlisten`."""
        self._listeners[ledger_id] = listener

    def unlisten(self, ledger_id: int, listener: AddListener) -> None:
        """Undo `listen`; answers that arrive later are dropped."""
        if self._listeners.get(ledger_id) is listener:
            del self._listeners[ledger_id]
            self._end_if_retired()

    def write(self, frames: bytes) -> None:
        """Send add requests; their answers go to the ledger's listener."""
        if self._transport is not None and not self.closed:
            self._transport.write(frames)

    def read(self, ledger_id: int, entry: int, flags: int = 0, key: bytes = b"") -> asyncio.Future[tuple[int, bytes]]:
        """Ask for one entry (-1: the last one); the future holds error code and stored entry.

        With the flag FENCE, the master key `key` is sent too. BookieUnavailable after the read time-out; sooner when
        nothing at all comes from the bookie, and at once while it is known to be silent.
        """
        return self._ask((ledger_id, entry), wire.encode_read(ledger_id, entry, flags, key))

    def read_batch(
        self, ledger_id: int, first: int, max_count: int, max_size: int
    ) -> asyncio.Future[tuple[int, bytes]]:
        """Ask for up to `max_count` consecutive entries from `first` on, in an answer of at most `max_size` bytes.

        The future holds error code and, for each entry, its size (4 bytes) and the stored entry.
        """
        self._last_request += 1
        request = wire.encode_batch_read(ledger_id, first, self._last_request, max_count, max_size)
        return self._ask((_BATCH_KEY, self._last_request), request)

    def retire(self) -> None:
        """Close the connection once no ledger listens and no answer is awaited: another one replaces it."""
        self._retired = True
        self._end_if_retired()

    def close(self) -> None:
        """End the connection; pending requests fail."""
        self._end("this client closed the connection")

    def fail(self, reason: str) -> None:
        """End a connection that misbehaves; pending requests fail with `reason`."""
        self._end(reason)

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_WATER)

    def pause_writing(self) -> None:
        """Note that the send buffer is above its high-water mark."""
        self.congested = True

    def resume_writing(self) -> None:
        """Tell the writers that the send buffer has drained."""
        self.congested = False
        for listener in list(self._listeners.values()):
            listener.writable_again(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the pending requests."""
        self._end(f"the connection was lost ({exc})" if exc else "the bookie closed the connection")

    def data_received(self, data: bytes) -> None:
        """Deliver every whole answer and keep the rest."""
        self.heard_at = self._loop.time()
        if self._chunks:
            self._chunks.append(data)
            self._held += len(data)
            if self._held < self._wanted:
                return
            data = b"".join(self._chunks)
            self._chunks.clear()
        rest, self._wanted = self._take(data)
        if rest < len(data) and not self.closed:
            self._chunks.append(data[rest:] if rest else data)
            self._held = len(data) - rest

    # Answers

    def _take(self, data: bytes) -> tuple[int, int]:
        """Deliver every whole frame of `data`; return where the rest begins and its minimal length."""
        at, end = 0, len(data)
        while end - at >= wire.RESPONSE.size and not self.closed:
            if data.startswith(_ADD_ANSWER, at):
                at = self._take_adds(data, at)
                continue
            size = wire.LENGTH.size + wire.LENGTH.unpack_from(data, at)[0]
            if not wire.RESPONSE.size <= size <= self._max_answer + _ANSWER_SLACK:
                self._refuse_frame(f"an answer of {size} bytes, {self._max_answer} are allowed")
                break
            stop = at + size
            if stop > end:
                return at, size
            self._take_frame(data, at, stop)
            at = stop
        return at, wire.RESPONSE.size

    def _take_adds(self, data: bytes, at: int) -> int:
        """Deliver the add answers that begin at `at`, of any ledgers; return where they end."""
        self.acknowledged_at = self.heard_at
        count = (len(data) - at) // wire.RESPONSE.size
        if count < _FEW:
            _, _, error, ledger, entry = wire.RESPONSE.unpack_from(data, at)
            self._add_answered(ledger, error, entry, entry)
            return at + wire.RESPONSE.size
        import numpy

        answers = numpy.frombuffer(data, _answer_type(), count, at)
        adds = (answers["length"] == wire.RESPONSE.size - 4) & (answers["header"] == _ADD_HEADER)
        if not adds.all():
            count = int(numpy.argmin(adds))
            answers = answers[:count]
        entries, ledgers = answers["entry"].astype(numpy.int64), answers["ledger"]
        in_order = entries[1:] == entries[:-1] + 1
        together = (ledgers[1:] == ledgers[:-1]) & (answers["error"][1:] == answers["error"][:-1])
        starts = [0, *(numpy.flatnonzero(~together) + 1).tolist(), count]
        if len(starts) == 2 and in_order.all():
            self._add_answered(int(ledgers[0]), int(answers["error"][0]), int(entries[0]), int(entries[-1]))
        else:
            self._hand_out(answers, entries.tolist(), numpy.flatnonzero(~(in_order | ~together)).tolist(), starts)
        return at + count * wire.RESPONSE.size

    def _hand_out(self, answers: Any, entries: list[int], disorder: list[int], starts: list[int]) -> None:
        """Deliver runs of one ledger and error each, from one of `starts` to the next.

        `disorder`: ascending indexes of answers within a run that are not followed by the next entry's answer.
        """
        firsts = starts[:-1]
        ledgers, errors = answers["ledger"][firsts].tolist(), answers["error"][firsts].tolist()
        next_disorder = 0
        for number, start in enumerate(firsts):
            if self.closed:
                return
            stop = starts[number + 1]
            if next_disorder < len(disorder) and disorder[next_disorder] < stop:
                run = entries[start:stop]
                while next_disorder < len(disorder) and disorder[next_disorder] < stop:
                    next_disorder += 1
                listener = self._listeners.get(ledgers[number])
                if listener is None:
                    continue
                if errors[number]:
                    listener.refused(self, min(run), errors[number])
                else:
                    listener.acknowledged(self, run)
            else:
                self._add_answered(ledgers[number], errors[number], entries[start], entries[stop - 1])

    def _add_answered(self, ledger_id: int, error: int, first: int, last: int) -> None:
        listener = self._listeners.get(ledger_id)
        if listener is None:
            return
        if error:
            listener.refused(self, first, error)
        else:
            listener.acknowledged_run(self, first, last)

    def _take_frame(self, data: bytes, at: int, stop: int) -> None:
        _, header, error, ledger, entry = wire.RESPONSE.unpack_from(data, at)
        body = at + wire.RESPONSE.size
        match header >> 16 & 0xFF:
            case wire.Op.READ:
                self._answer((ledger, entry), error, data[body:stop])
            case wire.Op.BATCH_READ:
                request = int.from_bytes(data[body : body + 8], "big")
                self._answer((_BATCH_KEY, request), error, data[body + 8 : stop])
            case wire.Op.ADD:
                self.acknowledged_at = self.heard_at
                self._add_answered(ledger, error, entry, entry)
            case op:
                log.warning("unexpected_answer", bookie=self.bookie_id, op=op)

    def _refuse_frame(self, what: str) -> None:
        log.error("bad_frame", bookie=self.bookie_id, reason=what)
        self._end(f"it sent {what}")

    # Reads that wait

    def _ask(self, key: tuple[int, int], request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        future: asyncio.Future[tuple[int, bytes]] = self._loop.create_future()
        if self._transport is None or self.closed:
            future.set_exception(self._unavailable("the connection is closed"))
            return future
        if self._quarantine.refuses(self.bookie_id):
            future.set_exception(BookieUnavailable(self._quarantine.why(self.bookie_id)))
            return future
        waiter = _Waiter(future, self._loop.time())
        self._waiting.setdefault(key, deque()).append(waiter)
        self._transport.write(request)
        if self._expiry is None:
            self._expiry = self._loop.call_later(self._expiry_s, self._expire)
        return future

    def _answer(self, key: tuple[int, int], error: int, body: bytes) -> None:
        waiters = self._waiting.get(key)
        if not waiters:
            return  # the request had timed out
        waiter = waiters.popleft()
        if not waiters:
            del self._waiting[key]
        if not waiter.future.done():
            waiter.future.set_result((error, body))
        if self._retired:
            self._end_if_retired()

    def _expire(self) -> None:
        self._expiry = None
        now, oldest = self._loop.time(), float("inf")
        for key, waiters in list(self._waiting.items()):
            while waiters and self._has_expired(waiters[0], now):
                waiter = waiters.popleft()
                self.behind = self.behind or key[0] != _BATCH_KEY
                if not waiter.future.done():
                    waited = now - max(waiter.asked_at, self.heard_at)
                    what = f"no answer to a read within {now - waiter.asked_at:.1f} s"
                    if waited >= self._silence_timeout_s:
                        self._quarantine.note_silence(self.bookie_id, what, waited)
                    waiter.future.set_exception(self._unavailable(what))
            if not waiters:
                del self._waiting[key]
            else:  # given-up reads keep their place: their answers may still come
                oldest = min([oldest, *(each.asked_at for each in waiters if not each.future.done())])
        self.tell_waiting(now - max(oldest, self.heard_at))
        if self._waiting:
            self._expiry = self._loop.call_later(self._expiry_s, self._expire)
        self._end_if_retired()

    def _has_expired(self, waiter: _Waiter, now: float) -> bool:
        silent_since = max(waiter.asked_at, self.heard_at)
        return now - waiter.asked_at >= self._read_timeout_s or now - silent_since >= self._silence_timeout_s

    def _end_if_retired(self) -> None:
        if self._retired and not self._listeners and not self._waiting:
            self._end("another connection took its place")

    def _end(self, reason: str) -> None:
        if self.closed:
            return
        self.closed, self.congested = True, False
        if self._expiry is not None:
            self._expiry.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._chunks.clear()
        waiting, self._waiting = self._waiting, {}
        for waiters in waiting.values():
            for waiter in waiters:
                if not waiter.future.done():
                    waiter.future.set_exception(self._unavailable(reason))
        listeners, self._listeners = self._listeners, {}
        for listener in listeners.values():
            listener.connection_lost(self, reason)

    def _unavailable(self, reason: str) -> BookieUnavailable:
        return BookieUnavailable(f"bookie {self.bookie_id}: {reason}; see whether it runs, and try again")


@functools.cache
def _answer_type() -> "numpy.dtype[numpy.void]":
    """The array type of an answer to an add."""
    import numpy

    return numpy.dtype([("length", ">u4"), ("header", ">u4"), ("error", ">u4"), ("ledger", ">i8"), ("entry", ">i8")])
