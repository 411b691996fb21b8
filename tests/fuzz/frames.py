"""Targets: buffers of frames that a bookie and a client receive, compared with a plain loop over the bytes."""

import asyncio
import itertools
import logging

from mledger.bookie import request_frames, version3_wire, wire
from mledger.bookie.client.connections.connection import BookieConnection
from mledger.bookie.client.connections.frames import open_batch, open_entry
from mledger.bookie.digest import make_digest
from mledger.bookie.errors import BookieRefused, Code
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb
from mledger.bookie.server.serving import version3_messages
from mledger.bookie.server.storage.rows.runs import parse_run
from mledger.bookie.version3_reads import ReadRun
from mledger.metastore.records.ledger_metadata import DigestType
from tests.fuzz import corpus
from tests.fuzz.mutate import Mutator
from tests.fuzz.targets import Disagreement, FuzzTarget, Maker, of_seeds

_MOST_FRAME = 1 << 16
_DIGEST = make_digest(DigestType.CRC32C, b"")
_LOOP = asyncio.new_event_loop()  # never run: a connection without a transport asks nothing of it

Spans = list[tuple[int, int]]


def scan(data: bytes) -> None:
    """A bookie's receive buffer: every frame is found, and answered as far as that needs no store."""
    buffer = bytearray(data)
    found = request_frames.scan(buffer, 0, len(buffer), _MOST_FRAME)
    spans: Spans = []
    for request in found.requests:
        if isinstance(request, request_frames.AddRun):
            starts = request.starts.tolist()
            spans += itertools.pairwise(starts)
            _check_run(data, request)
        else:
            spans.append((request.start, request.end))
    expected, end, error = plain_scan(data)
    if spans != expected or found.end != end or bool(found.error) != error:
        raise Disagreement(f"found {spans} to {found.end} ({found.error!r}), there are {expected} to {end}")
    for request in found.requests:
        if isinstance(request, request_frames.OtherFrame):
            _answer(data[request.start : request.end])


def _check_run(data: bytes, run: request_frames.AddRun) -> None:
    shared = run.version, run.flags, run.master_key, run.ledger
    for start, entry in zip(run.starts.tolist(), run.entries.tolist(), strict=False):
        _, header, key, ledger, number = wire.ADD_HEAD.unpack_from(data, start)
        if (header >> 24, header & 0xFFFF, key, ledger) != shared or number != entry:
            raise Disagreement(f"the add at {start} is not one of the run's")
    rising = all(former < later for former, later in itertools.pairwise(run.entries.tolist()))
    if rising != run.rising:
        raise Disagreement(f"rising is {run.rising} for {run.entries}")


def _answer(frame: bytes) -> None:
    if frame[4] == wire.VERSION_3_TAG:
        _answer_version_3(version3_messages.open_request(frame[wire.LENGTH.size :]))
    elif frame[5] in (wire.Op.READ, wire.Op.BATCH_READ):
        wire.decode_read(frame).refusal(1)
    elif frame[5] == wire.Op.AUTH:
        version3_messages.answer_version_2(frame, None, True)


def _answer_version_3(request: pb.Request) -> None:
    version3_messages.handshake(request, None)
    version3_messages.refusal(request, Code.BAD_REQUEST)
    for operation in version3_messages.FIELDS:
        request.header.operation = pb.OperationType.ValueType(operation)
        answer = version3_messages.answer(request, Code.OK, version3_messages.number(2, request.readRequest.ledgerId))
        if not pb.Response.FromString(b"".join(answer)[wire.LENGTH.size :]).header.IsInitialized():
            raise Disagreement("an answer without a header")


def _check_reads(data: bytes, run: ReadRun) -> list[bytes]:
    """The frames of a run of plain reads, each equal to what protobuf's parser finds in it."""
    frames = [data[start:end] for start, end in itertools.pairwise(run.starts)]
    answers = run.responses(0, [b"entry"] * len(run), 5)
    for frame, entry in zip(frames, run.entries, strict=True):
        request = version3_messages.open_request(frame[wire.LENGTH.size :])
        header = pb.BKPacketHeader(version=pb.VERSION_THREE, operation=pb.READ_ENTRY, txnId=request.header.txnId)
        read = pb.ReadRequest(ledgerId=run.ledger, entryId=entry)
        if request.SerializeToString() != pb.Request(header=header, readRequest=read).SerializeToString():
            raise Disagreement(f"read as one of ledger {run.ledger} entry {entry}, it is {request}")
        found = pb.ReadResponse(status=pb.EOK, ledgerId=run.ledger, entryId=entry, body=b"entry", maxLAC=5)
        size = wire.LENGTH.size + int.from_bytes(answers[: wire.LENGTH.size], "big")
        answer, answers = pb.Response.FromString(answers[wire.LENGTH.size : size]), answers[size:]
        if answer != pb.Response(header=header, status=pb.EOK, readResponse=found):
            raise Disagreement("the answer is another request's")
    return frames


def scan_version_3(data: bytes) -> None:
    """A bookie's receive buffer in version 3: its adds are those that protobuf's parser finds, one by one."""
    found = version3_wire.scan(bytearray(data), 0, len(data), _MOST_FRAME)
    expected, at = [], 0
    while len(data) - at > wire.LENGTH.size and data[at + 4] == wire.VERSION_3_TAG:
        size = int.from_bytes(data[at : at + 4], "big")
        if not 4 <= size <= _MOST_FRAME or at + 4 + size > len(data):
            break
        add = version3_wire.read_add(data[at + 4 : at + 4 + size])
        expected.append(data[at : at + 4 + size] if add is None else (add.transaction, add.frame))
        at += 4 + size
    seen: list[object] = []
    for request in found.requests:
        if isinstance(request, version3_wire.TransactionRun):
            _check_run(request.frames, request)
            frames = [request.frames[first:last] for first, last in itertools.pairwise(request.starts.tolist())]
            seen += zip((number % (1 << 64) for number in request.transactions.tolist()), frames, strict=True)
            request.responses()
        elif isinstance(request, ReadRun):
            seen += _check_reads(data, request)
        else:
            seen.append(data[request.start : request.end])
    if seen != expected or found.end != at:
        raise Disagreement(f"found {seen} to {found.end}, there are {expected} to {at}")
    for request in found.requests:
        if isinstance(request, request_frames.OtherFrame):
            _answer_version_3(version3_messages.open_request(data[request.start + 4 : request.end]))


def plain_scan(data: bytes) -> tuple[Spans, int, bool]:
    """The frames in `data`, where they end, and whether what follows is no frame."""
    at, spans = 0, []
    while len(data) - at >= wire.LENGTH.size:
        size = int.from_bytes(data[at : at + 4], "big")
        if not 4 <= size <= _MOST_FRAME:
            return spans, at, True
        if len(data) - at >= wire.HEAD.size:
            add = data[at + 5] == wire.Op.ADD and data[at + 4] <= wire.VERSION
            if add and size < wire.SMALLEST_ADD:
                return spans, at, True
        if at + 4 + size > len(data):
            break
        spans.append((at, at + 4 + size))
        at += 4 + size
    return spans, at, False


def requests(seed: str) -> Maker:
    """Buffers of requests: one to three frames, or one many times, with right and wrong lengths."""
    adds = [wire.encode_add(bytes(20), entry) for entry in corpus.stored_entries() if len(entry) < 200]
    return _buffers(corpus.frames("client->bookie") + adds, seed)


def version_3_requests(seed: str) -> Maker:
    """The same of version 3."""
    return _buffers([frame for frame in corpus.frames("client->bookie") if frame[4] == wire.VERSION_3_TAG], seed)


def answers(seed: str) -> Maker:
    """Buffers of answers."""
    adds = [wire.encode_response(wire.Op.ADD, code, 1, entry) for code in (0, 104) for entry in (0, 1, 7)]
    return _buffers(corpus.frames("bookie->client") + adds, seed)


def _buffers(seeds: list[bytes], seed: str) -> Maker:
    whole, body_of = Mutator(seeds, seed), Mutator([frame[4:] for frame in seeds], seed)

    def one() -> bytes:
        kind = whole.below(8)
        if kind == 0:
            return whole.make()
        if kind == 1:
            return whole.pick()
        if kind == 2:
            return whole.pick() * (1 + whole.below(12))
        body = body_of.make()
        return len(body).to_bytes(4, "big") + body

    def several() -> bytes:
        data = b"".join([one() for _ in range(1 + whole.below(3))])
        return data if whole.below(4) else whole.change(data)

    return several


class _Heard:
    """A ledger's writer, as far as answers reach it."""

    def __init__(self) -> None:
        self.entries: list[int] = []
        self.lost = False

    def acknowledged_run(self, connection: BookieConnection, first: int, last: int) -> None:
        self.entries += (first, last)

    def acknowledged(self, connection: BookieConnection, entries: list[int]) -> None:
        self.entries += entries

    def refused(self, connection: BookieConnection, entry: int, code: int) -> None:
        self.entries.append(entry)

    def connection_lost(self, connection: BookieConnection, reason: str) -> None:
        self.lost = True

    def writable_again(self, connection: BookieConnection) -> None:
        raise Disagreement("nothing was sent")


def receive(data: bytes) -> None:
    """How a client reads a connection's bytes, then each answer and its contents."""
    connection, heard = BookieConnection("b", _LOOP, read_timeout_s=1, max_answer=_MOST_FRAME), _Heard()
    connection.listen(1, heard)
    connection.data_received(data)
    if connection.closed != heard.lost:
        raise Disagreement("the connection ended and its ledgers were not told")
    response = wire.decode_response(data)
    if response.op == wire.Op.READ:
        opened = open_entry(response.body, response.ledger, None, _DIGEST)
        if opened is not None and opened.payload != response.body[36:]:
            raise Disagreement("the payload is not the entry's")
    elif response.op == wire.Op.BATCH_READ:
        open_batch(response.body, response.ledger, response.entry, _DIGEST)


def run_of_adds(data: bytes) -> None:
    """A run of adds as the journal holds it."""
    run = parse_run(data)
    if len(run.entries) != len(run.starts) - 1 or int(run.starts[-1]) != len(data):
        raise Disagreement("the run's frames are not all of it")


def _runs() -> list[bytes]:
    entries = [entry for entry in corpus.stored_entries() if len(entry) < 300]
    frames = [wire.encode_add(bytes(20), entry) for entry in entries]
    return frames + [b"".join(frames[at : at + 4]) for at in range(0, len(frames), 4)]


def quiet() -> None:
    """Keep the clients' log of refused frames out of the output."""
    logging.getLogger("mledger.bookie.client.connections.connection").setLevel(logging.CRITICAL)


TARGETS = [
    FuzzTarget("requests", requests, scan, (wire.MalformedFrame,), 12),
    FuzzTarget("version 3 requests", version_3_requests, scan_version_3, (wire.MalformedFrame,), 12),
    FuzzTarget("answers", answers, receive, (wire.MalformedFrame, BookieRefused), 12),
    FuzzTarget("stored runs", of_seeds(_runs), run_of_adds, (wire.MalformedFrame,), 4),
]
