"""Serves the operations of version 3, except adds, which take the path of version 2's adds.

- The answer to a read carries the last add confirmed that this bookie knows. A read that names an earlier one waits.
- A fencing read is answered as in version 2 (Q7).
- A force is answered when everything accepted for its ledger is synced. So is an add with deferred sync: Q8 has no
  exception, so its answer promises more than was asked for.
"""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from mledger.bookie import wire
from mledger.bookie.entries_available import encode_available
from mledger.bookie.errors import Code, IndexUnreadable
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb
from mledger.bookie.server.serving import version3_messages
from mledger.bookie.server.serving.entry_lists import EntryLists
from mledger.bookie.server.serving.group_commit import GroupCommit
from mledger.bookie.server.serving.long_polls import AnswerRoom
from mledger.bookie.server.storage.directories.disk import Disk
from mledger.bookie.server.storage.ledgers import LedgerDescriptor, check_write_lac, explicit_confirmed, explicit_lac_of
from mledger.bookie.server.storage.reads import Parts, check_read, missing
from mledger.bookie.server.storage.records.journal_record import Client
from mledger.bookie.version3_reads import ReadRun
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.times import wall_clock_ms

log = get_logger(__name__)

_LEDGER, _ENTRY, _BODY, _CONFIRMED, _CONFIRMED_AT = 2, 3, 4, 5, 6
_TOTAL, _FREE = 2, 3
_EXPLICIT_LAC, _LAST_ENTRY = 3, 4
_AVAILABLE = 3
_ANSWER_HEAD = 64
_ANSWERED_TOGETHER = 256 << 10
"""Bytes of entries after which answers to plain reads are sent: the client must read them before it gets more."""
_MOST_LISTS = 1024
"""The most lists of entries that wait to be made."""

Serve = Callable[[Client, pb.Request], None]


class Version3Service:
    """Serves the requests of authenticated clients. Lives on the loop."""

    def __init__(self, turns: GroupCommit, lists: EntryLists, disk: Callable[[], Disk], max_frame: int) -> None:
        """`disk` returns the bookie's fullest disk; no answer is larger than `max_frame` bytes."""
        self._turns, self._lists, self._disk, self._max_frame = turns, lists, disk, max_frame
        self._tasks: dict[asyncio.Task[None], Client] = {}
        self._room = AnswerRoom(asyncio.get_running_loop())
        self._operations: dict[int, tuple[str, Serve]] = {
            pb.READ_ENTRY: ("readRequest", self._read),
            pb.ADD_ENTRY: ("addRequest", self._refuse_add),
            pb.WRITE_LAC: ("writeLacRequest", self._write_lac),
            pb.READ_LAC: ("readLacRequest", self._read_lac),
            pb.FORCE_LEDGER: ("forceLedgerRequest", self._force),
            pb.GET_LIST_OF_ENTRIES_OF_LEDGER: ("getListOfEntriesOfLedgerRequest", self._list_entries),
            pb.GET_BOOKIE_INFO: ("getBookieInfoRequest", self._bookie_info),
        }

    def serve(self, client: Client, request: pb.Request) -> None:
        """Answer a request, now or later. MalformedFrame when it lacks a field that its operation needs."""
        field, operation = self._operations.get(request.header.operation, ("", None))
        if operation is None:  # ranges and batches are named in the protocol, but have no messages
            client.send([version3_messages.refusal(request, Code.BAD_REQUEST)])
            return
        if not request.HasField(field):  # type: ignore[arg-type]
            raise wire.MalformedFrame(f"a version 3 request without its {field}")
        try:
            operation(client, request)
        except IndexUnreadable:  # nothing of the request has been done
            client.send([version3_messages.refusal(request, Code.IO_ERROR)])

    def forget(self, client: Client) -> None:
        """Drop the waiting requests of a client that has disconnected."""
        self._turns.long_polls.forget(client)
        self._room.forget(client)
        for task in [task for task, of_client in self._tasks.items() if of_client is client]:
            task.cancel()

    # Reads.

    def read(self, client: Client, reads: ReadRun, first: int) -> int:
        """Answer the plain reads from number `first` on, up to one whose entry is not in memory; how many."""
        turns = self._turns
        try:
            state = turns.ledgers.get(reads.ledger)
        except IndexUnreadable:
            return 0
        if state.record is None or state.record.limbo:
            return 0
        found = turns.reader.in_memory(state, reads.entries[first:], _ANSWERED_TOGETHER)
        if not found:
            return 0
        confirmed = self._confirmed(state)
        if confirmed is None:
            return 0
        answers = reads.responses(first, found, confirmed)
        turns.counters.read(len(answers), refused=False, count=len(found))
        client.send([answers])
        return len(found)

    def _read(self, client: Client, request: pb.Request) -> None:
        read = request.readRequest
        code = Code.OK
        if request.header.version != pb.VERSION_THREE:
            code = Code.BAD_VERSION
        elif read.ledgerId < 0 or read.entryId < wire.LAST_ENTRY:
            code = Code.BAD_REQUEST
        if code:
            self._refuse_read(client, request, code)
        elif read.HasField("flag") and read.flag == pb.ReadRequest.FENCE_LEDGER:
            self._fence(client, request)
        elif read.HasField("previousLAC"):
            self._long_poll(client, request)
        else:
            self._answer_read(client, request)

    def _refuse_read(self, client: Client, request: pb.Request, code: Code) -> None:
        read = request.readRequest
        fields = version3_messages.number(_LEDGER, read.ledgerId), version3_messages.number(_ENTRY, read.entryId)
        self._send_read(client, version3_messages.answer(request, code, *fields), code)

    def _send_read(self, client: Client, parts: Parts, code: Code) -> None:
        self._turns.counters.read(sum(map(len, parts)), refused=code != Code.OK)
        client.send(parts)

    def _fence(self, client: Client, request: pb.Request) -> None:
        """Fence, and read when the fence and all adds before it are durable (Q7)."""
        read, turns = request.readRequest, self._turns
        state = turns.ledgers.get(read.ledgerId)
        code = Code.UNAUTHORIZED
        if len(read.masterKey) == wire.MASTER_KEY_SIZE:
            code = turns.fence(state, read.masterKey)
        if code:
            self._refuse_read(client, request, code)
            return
        code, entry = self._entry(state, read.entryId, fencing=True)
        parts = [version3_messages.number(_LEDGER, read.ledgerId), version3_messages.number(_ENTRY, read.entryId)]
        if entry is not None:
            parts += version3_messages.data(_BODY, entry)
        answer = version3_messages.answer(request, code, *parts)
        turns.counters.read(sum(map(len, answer)), refused=code != Code.OK)
        turns.answer_when_durable(client, state, answer)

    def _entry(self, state: LedgerDescriptor, entry: int, *, fencing: bool = False) -> tuple[Code, bytes | None]:
        code = check_read(state, entry, fencing=fencing)
        if code:
            return code, None
        try:
            found = self._turns.reader.entry(state, entry)
        except Exception as error:
            log.exception("read_failed", ledger=state.ledger, entry=entry, error=error)
            return Code.IO_ERROR, None
        return (Code.OK, found) if found is not None else (missing(state, entry, fencing=fencing), None)

    def _answer_read(self, client: Client, request: pb.Request, *, woken: bool = False) -> None:
        read = request.readRequest
        state = self._turns.ledgers.get(read.ledgerId)
        code, entry = self._entry(state, read.entryId)
        if entry is not None and woken and not self._room.take(client, len(entry)):
            self._refuse_read(client, request, Code.TOO_MANY_REQUESTS)
            return
        parts = [version3_messages.number(_LEDGER, read.ledgerId), version3_messages.number(_ENTRY, read.entryId)]
        if entry is not None:
            parts += version3_messages.data(_BODY, entry)
            if state.record is not None and state.record.limbo:
                code = Code.UNKNOWN_LEDGER_STATE  # the entry exists, but the last add confirmed is unknown
            elif (known := self._confirmed(state)) is not None:
                parts.append(version3_messages.number(_CONFIRMED, known))
        self._send_read(client, version3_messages.answer(request, code, *parts), code)

    def _long_poll(self, client: Client, request: pb.Request) -> None:
        """Answer when the last add confirmed passes the one in the request, or when its time is over."""
        read, turns = request.readRequest, self._turns
        state = turns.ledgers.get(read.ledgerId)
        if state.record is None:
            self._refuse_read(client, request, Code.NO_LEDGER)
            return

        def answer(advanced: bool, *, woken: bool = True) -> None:
            try:
                self._answer_long_poll(client, request, wall_clock_ms() if advanced else None, woken=woken)
            except IndexUnreadable:
                self._refuse_read(client, request, Code.IO_ERROR)

        confirmed = self._confirmed(state)
        waits = read.HasField("timeOut") and confirmed is not None and confirmed <= read.previousLAC
        polls, wait_s = turns.long_polls, read.timeOut / 1000
        if not (waits and polls.wait(client, read.ledgerId, read.previousLAC, wait_s, answer)):
            answer(False, woken=False)

    def _answer_long_poll(self, client: Client, request: pb.Request, advanced_at: int | None, *, woken: bool) -> None:
        read, turns = request.readRequest, self._turns
        if not (read.HasField("flag") and read.flag == pb.ReadRequest.ENTRY_PIGGYBACK):
            self._answer_read(client, request, woken=woken)
            return
        if read.entryId != wire.LAST_ENTRY:
            self._refuse_read(client, request, Code.BAD_REQUEST)
            return
        state = turns.ledgers.get(read.ledgerId)
        code = check_read(state, wire.LAST_ENTRY)
        if not code and state.highest < 0 and not (state.record and state.record.explicit_lac):
            code = Code.NO_ENTRY
        if code:
            self._refuse_read(client, request, code)
            return
        confirmed, entry, found = self._confirmed(state), read.previousLAC + 1, None
        if confirmed is None:
            self._refuse_read(client, request, Code.IO_ERROR)
            return
        if confirmed > read.previousLAC and entry >= 0:
            code, found = self._entry(state, entry)
            code = Code.OK if code == Code.NO_ENTRY else code  # striping may have placed it on other bookies
            if found is not None and woken and not self._room.take(client, len(found)):
                found = None  # the client reads it by itself
        parts = [version3_messages.number(_LEDGER, read.ledgerId)]
        parts.append(version3_messages.number(_ENTRY, read.entryId if found is None else entry))
        if found is not None:
            parts += version3_messages.data(_BODY, found)
        parts.append(version3_messages.number(_CONFIRMED, confirmed))
        if confirmed > read.previousLAC and advanced_at is not None:
            parts.append(version3_messages.number(_CONFIRMED_AT, advanced_at))
        self._send_read(client, version3_messages.answer(request, code, *parts), code)

    def _confirmed(self, state: LedgerDescriptor) -> int | None:
        """The last add confirmed; None when the ledger's last entry, which carries it, cannot be read."""
        try:
            return self._turns.confirmed(state)
        except Exception as error:
            log.exception("last_confirmed_unreadable", ledger=state.ledger, error=error)
            return None

    # The last add confirmed, and what is durable.

    def _read_lac(self, client: Client, request: pb.Request) -> None:
        ledger = request.readLacRequest.ledgerId
        state = self._turns.ledgers.get(ledger)
        fields, code = [version3_messages.number(_LEDGER, ledger)], missing(state, wire.LAST_ENTRY)
        if state.record is not None and not state.record.limbo:
            explicit = state.record.explicit_lac
            code, last = self._entry(state, wire.LAST_ENTRY)
            if explicit:
                fields += version3_messages.data(_EXPLICIT_LAC, explicit)
                code = Code.OK if code == Code.NO_ENTRY else code
            if last is not None:
                fields += version3_messages.data(_LAST_ENTRY, last)
        if request.header.version != pb.VERSION_THREE:
            fields, code = fields[:1], Code.BAD_VERSION
        client.send(version3_messages.answer(request, code, *fields))

    def _write_lac(self, client: Client, request: pb.Request) -> None:
        asked, turns = request.writeLacRequest, self._turns
        field, code = version3_messages.number(_LEDGER, asked.ledgerId), Code.OK
        if request.header.version != pb.VERSION_THREE:
            code = Code.BAD_VERSION
        elif len(asked.masterKey) != wire.MASTER_KEY_SIZE:
            code = Code.UNAUTHORIZED
        elif asked.ledgerId < 0 or not explicit_lac_of(asked.ledgerId, asked.body):
            code = Code.BAD_REQUEST
        state = turns.ledgers.get(asked.ledgerId)
        code = code or check_write_lac(state, asked.masterKey, read_only=turns.read_only or turns.full)
        answer = version3_messages.answer(request, code, field)
        if code:
            log.warning("write_lac_refused", ledger=asked.ledgerId, code=code)
            client.send(answer)
            return
        turns.change(state, replace(state.keyed(asked.masterKey), explicit_lac=asked.body))
        turns.confirm(state, explicit_confirmed(asked.body))
        turns.answer_when_durable(client, state, answer)

    def _force(self, client: Client, request: pb.Request) -> None:
        ledger = request.forceLedgerRequest.ledgerId
        code = Code.OK if request.header.version == pb.VERSION_THREE else Code.BAD_VERSION
        parts = version3_messages.answer(request, code, version3_messages.number(_LEDGER, ledger))
        self._turns.answer_when_durable(client, self._turns.ledgers.get(ledger), parts)

    # The rest.

    def _list_entries(self, client: Client, request: pb.Request) -> None:
        ledger = request.getListOfEntriesOfLedgerRequest.ledgerId
        state, code = self._turns.ledgers.get(ledger), Code.OK
        if request.header.version != pb.VERSION_THREE:
            code = Code.BAD_VERSION
        elif state.record is None:
            code = Code.NO_LEDGER
        elif len(self._tasks) >= _MOST_LISTS:
            code = Code.TOO_MANY_REQUESTS
        if code:
            client.send(version3_messages.answer(request, code, version3_messages.number(_LEDGER, ledger)))
            return
        task = asyncio.get_running_loop().create_task(self._answer_list(client, request, state))
        self._tasks[task] = client
        task.add_done_callback(self._tasks.pop)

    async def _answer_list(self, client: Client, request: pb.Request, state: LedgerDescriptor) -> None:
        fields, code = [version3_messages.number(_LEDGER, state.ledger)], Code.OK
        try:
            entries = await self._lists.entries(state)
            available = await asyncio.get_running_loop().run_in_executor(None, encode_available, entries)
            if len(available) > self._max_frame - _ANSWER_HEAD:
                raise OSError(f"the list of {len(entries)} entries has {len(available)} bytes, too many for a frame")
            fields += version3_messages.data(_AVAILABLE, available)
        except Exception as error:
            log.exception("list_failed", ledger=state.ledger, error=error)
            code = Code.IO_ERROR
        client.send(version3_messages.answer(request, code, *fields))

    def _refuse_add(self, client: Client, request: pb.Request) -> None:
        """Refuse an add that cannot be stored, as unauthorized: on that code writers stop."""
        add = request.addRequest
        code = Code.UNAUTHORIZED if request.header.version == pb.VERSION_THREE else Code.BAD_VERSION
        log.warning("add_refused", ledger=add.ledgerId, entry=add.entryId, count=1, code=code)
        self._turns.counters.adds_refused += 1
        fields = version3_messages.number(_LEDGER, add.ledgerId), version3_messages.number(_ENTRY, add.entryId)
        client.send(version3_messages.answer(request, code, *fields))

    def _bookie_info(self, client: Client, request: pb.Request) -> None:
        wanted, fields = request.getBookieInfoRequest.requested, []
        if request.header.version != pb.VERSION_THREE:
            client.send(version3_messages.answer(request, Code.BAD_VERSION))
            return
        disk = self._disk()
        if wanted & pb.GetBookieInfoRequest.TOTAL_DISK_CAPACITY:
            fields.append(version3_messages.number(_TOTAL, disk.size))
        if wanted & pb.GetBookieInfoRequest.FREE_DISK_SPACE:
            fields.append(version3_messages.number(_FREE, disk.free))
        client.send(version3_messages.answer(request, Code.OK, *fields))
