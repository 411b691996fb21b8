"""Answers to reads, from what the store holds (formats.md, Bookie protocol)."""

import logging

from bookie import wire
from bookie.errors import Code
from bookie.server.ledgers import LedgerState
from bookie.server.runs import FRAME_HEAD, StoredRun
from bookie.server.store import Store

log = logging.getLogger(__name__)

Parts = list[bytes | memoryview]


class Reader:
    """Finds entries. What was put must be committed before."""

    def __init__(self, store: Store, max_frame: int = wire.MAX_FRAME) -> None:
        self._store, self._max_frame = store, max_frame

    def answer(self, state: LedgerState, request: wire.ReadRequest) -> Parts:
        """The response to a read or batch read of the ledger `state` stands for."""
        code = self._check(state, request)
        if code:
            return [request.refusal(code)]
        try:
            if request.batch is not None:
                return self._batch(state, request, request.batch)
            entry = self.entry(state, request.entry)
        except Exception as error:
            log.exception("event=read_failed ledger=%d entry=%d error=%r", request.ledger, request.entry, str(error))
            return [request.refusal(Code.IO_ERROR)]
        if entry is None:
            return [request.refusal(_missing(state))]
        return [wire.encode_response(request.op, Code.OK, request.ledger, request.entry, entry, request.version)]

    def entry(self, state: LedgerState, entry: int) -> bytes | None:
        """An entry as stored; wire.LAST_ENTRY is the highest one."""
        if entry == wire.LAST_ENTRY:
            entry = state.highest
        if not 0 <= entry <= state.highest:
            return None
        if state.repeats:
            frame = self._store.repeat(state.ledger, entry)
            if frame is not None:
                return frame[FRAME_HEAD:]
        run = self._store.run_at(state.ledger, entry)
        index = -1 if run is None else run.index(entry)
        return None if run is None or index < 0 else run.entry(index)

    def _check(self, state: LedgerState, request: wire.ReadRequest) -> Code:
        if request.version > wire.VERSION:
            return Code.BAD_VERSION
        if request.ledger < 0 or request.entry < wire.LAST_ENTRY:
            return Code.BAD_REQUEST
        if state.record is None:
            return Code.NO_LEDGER
        if state.record.limbo and request.entry == wire.LAST_ENTRY:
            return Code.UNKNOWN_LEDGER_STATE
        return Code.OK

    def _batch(self, state: LedgerState, request: wire.ReadRequest, batch: wire.BatchReadRequest) -> Parts:
        first = self.entry(state, request.entry)
        if first is None:
            return [request.refusal(_missing(state))]
        room = min(batch.max_size, self._max_frame) - wire.BATCH_RESPONSE.size
        most = batch.max_count if batch.max_count > 0 else 1 << 31
        most = 1 if request.entry == wire.LAST_ENTRY else most
        parts: Parts = [wire.LENGTH.pack(len(first)), first]
        size = wire.LENGTH.size + len(first)
        entry, most = request.entry + 1, most - 1
        while most > 0 and entry <= state.highest:
            found, count, taken = self._sized(state, entry, most, room - size)
            if not count:
                break
            parts += found
            size, entry, most = size + taken, entry + count, most - count
        head = wire.header_word(wire.Op.BATCH_READ, 0, request.version)
        length = wire.BATCH_RESPONSE.size - 4 + size
        ids = (request.ledger, request.entry, batch.request_id)
        return [wire.BATCH_RESPONSE.pack(length, head, Code.OK, *ids), *parts]

    def _sized(self, state: LedgerState, entry: int, most: int, room: int) -> tuple[Parts, int, int]:
        """(size 4, entry)… of consecutive entries from `entry` on: parts, how many entries, how many bytes."""
        if state.repeats:
            found = self.entry(state, entry)
            size = 4 + len(found or b"")
            return ([wire.LENGTH.pack(size - 4), found], 1, size) if found is not None and size <= room else ([], 0, 0)
        run: StoredRun | None = self._store.run_at(state.ledger, entry)
        index = -1 if run is None else run.index(entry)
        if run is None or index < 0:
            return [], 0, 0
        parts, count, size = run.sized(index, most, room)
        return list(parts), count, size


def _missing(state: LedgerState) -> Code:
    """What a ledger that does not hold the entry answers."""
    return Code.UNKNOWN_LEDGER_STATE if state.record is not None and state.record.limbo else Code.NO_ENTRY
