"""Plain reads of version 3 are read and answered as protobuf's parser does; all others are left to the parser."""

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mledger.bookie import request_frames, version3_wire, wire
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb
from mledger.bookie.version3_layout import varint
from mledger.bookie.version3_reads import ReadRun, find_reads
from tests.support.bookies.version3 import add, request

numbers = st.one_of(
    st.integers(0, 300), st.sampled_from([127, 128, 16_383, 16_384, 1 << 21]), st.integers(0, (1 << 63) - 1)
)
KEY = b"k" * 20
MORE = [
    {"priority": 100},
    {"version": pb.VERSION_TWO},
    {"entryId": -1},
    {"ledgerId": -1},
    {"flag": pb.ReadRequest.FENCE_LEDGER, "masterKey": KEY},
    {"flag": pb.ReadRequest.ENTRY_PIGGYBACK, "previousLAC": 0, "timeOut": 1000},
    {"previousLAC": 0},
    {"masterKey": KEY},
    {"transaction": 1 << 63},
]


def plain(transaction, ledger, entry):
    return request(pb.READ_ENTRY, transaction, ledgerId=ledger, entryId=entry)


def asking_more(fields):
    return request(pb.READ_ENTRY, **{"ledgerId": 1, "entryId": 0, **fields})


def places(frames):
    return list(itertools.accumulate(map(len, frames), initial=0))


def header(transaction):
    return pb.BKPacketHeader(version=pb.VERSION_THREE, operation=pb.READ_ENTRY, txnId=transaction)


def framed(message):
    data = message.SerializeToString()
    return wire.LENGTH.pack(len(data)) + data


def as_protobuf(frame, run, number):
    """Whether protobuf's parser finds in a frame what the run says of its read, and nothing else."""
    read = pb.ReadRequest(ledgerId=run.ledger, entryId=run.entries[number])
    found = pb.Request.FromString(frame[wire.LENGTH.size :])
    expected = pb.Request(header=header(found.header.txnId), readRequest=read)
    return found.SerializeToString() == expected.SerializeToString()


reads = st.tuples(numbers, st.sampled_from([0, 1, 1, 1, 128, 1 << 40]), numbers)


@settings(deadline=None)
@given(st.lists(reads, min_size=1, max_size=40), st.integers(0, 5))
def test_plain_reads_are_runs_of_one_ledger_each(asked, before):
    frames = [plain(*read) for read in asked]
    buffer = bytearray(bytes(before) + b"".join(frames))
    runs = find_reads(buffer, [before + place for place in places(frames)])
    found = [(run.ledger, entry) for run in runs for entry in run.entries]
    assert found == [(ledger, entry) for _, ledger, entry in asked]
    assert [run.ledger for run in runs] == [ledger for ledger, _ in itertools.groupby(asked, lambda read: read[1])]
    cuts = [buffer[first:last] for run in runs for first, last in itertools.pairwise(run.starts)]
    assert cuts == frames


@settings(deadline=None)
@given(
    st.lists(st.tuples(numbers, numbers, st.sampled_from([b"", b"x", b"x" * 100, b"y" * 20_000])), max_size=20),
    numbers,
    st.integers(-1, 1 << 62),
    st.integers(0, 20),
)
def test_the_responses_are_those_that_protobuf_writes(asked, ledger, confirmed, first):
    frames = [plain(transaction, ledger, entry) for transaction, entry, _ in asked]
    for run in find_reads(b"".join(frames), places(frames)):
        answers = []
        for transaction, entry, body in asked[first:]:
            found = pb.ReadResponse(status=0, ledgerId=ledger, entryId=entry, body=body, maxLAC=confirmed)
            answers.append(framed(pb.Response(header=header(transaction), status=0, readResponse=found)))
        assert run.responses(first, [body for *_, body in asked[first:]], confirmed) == b"".join(answers)


@pytest.mark.parametrize("more", MORE, ids=str)
@pytest.mark.parametrize("at", [0, 3, 6])
def test_a_read_that_asks_for_more_is_left_to_the_parser(more, at):
    frames = [plain(number, 1, number) for number in range(6)]
    frames.insert(at, asking_more(more))
    data = b"".join(frames)
    assert find_reads(data, places(frames)) == []
    scan = version3_wire.scan(data, 0, len(data))
    other = places(frames)[at : at + 2]
    assert [found for found in scan.requests if not isinstance(found, ReadRun)] == [request_frames.OtherFrame(*other)]
    assert sum(len(found) for found in scan.requests if isinstance(found, ReadRun)) == 6


mutations = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4)


@settings(max_examples=400, deadline=None)
@given(st.lists(reads, min_size=1, max_size=4), mutations, st.binary(max_size=6))
@example([(1, 1, 1)], [], b"\x78\x01")  # a field that nobody knows
@example([(1, 1, 1)], [], b"\x0a\x00")  # the header again
def test_every_read_taken_for_plain_is_one_to_protobuf_s_parser(asked, mutations, behind):
    frames = [plain(*read) for read in asked]
    message = frames[-1][wire.LENGTH.size :] + behind
    frames[-1] = wire.LENGTH.pack(len(message)) + message
    cuts, buffer = places(frames), bytearray(b"".join(frames))
    for at, byte in mutations:
        buffer[at % len(buffer)] = byte
    for run in find_reads(buffer, cuts):
        for number, (first, last) in enumerate(itertools.pairwise(run.starts)):
            assert as_protobuf(buffer[first:last], run, number)


@pytest.mark.parametrize("shift", [0, 1, 15, 31])
def test_a_read_inside_other_frames_is_not_found(shift):
    """Reads across frames, with the length of the frames, as many as there are frames."""
    read = plain(1, 1, 1)
    data = bytes(shift) + read * 3 + bytes(32)
    cuts = [number * len(read) for number in range(4)]
    assert len(find_reads(data, cuts)) == (shift == 0)


def test_a_number_with_needless_bytes_is_answered_unchanged():
    body = b"\x08\x81\x00\x10\x82\x00"
    head = b"\x08\x03\x10\x01\x18\x83\x00"
    message = b"\n" + varint(len(head)) + head + b"\xa2\x06" + varint(len(body)) + body
    frame = wire.LENGTH.pack(len(message)) + message
    (run,) = find_reads(frame, [0, len(frame)])
    assert (run.ledger, *run.entries) == (1, 2)
    answer = run.responses(0, [b"entry"], 0)
    found = pb.ReadResponse(status=0, ledgerId=1, entryId=2, body=b"entry", maxLAC=0)
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    assert pb.Response.FromString(answer[4:]) == pb.Response(header=header(3), status=0, readResponse=found)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_reads_between_adds_and_other_requests_keep_their_places(data):
    kinds = {
        "read": lambda number: plain(number, 1, number),
        "add": lambda number: add(1, number, b"x" * 50),
        "fence": lambda _: asking_more(MORE[4]),
        "lac": lambda _: request(pb.READ_LAC, ledgerId=1),
    }
    chosen = data.draw(st.lists(st.sampled_from([*kinds, "add", "read"]), max_size=40))
    frames = [kinds[kind](number) for number, kind in enumerate(chosen)]
    whole = b"".join(frames)
    found = []
    for asked in version3_wire.scan(bytearray(whole), 0, len(whole)).requests:
        if isinstance(asked, ReadRun):
            found += ["read"] * len(asked)
        else:
            found += ["add"] * len(asked) if isinstance(asked, request_frames.AddRun) else ["other"]
    assert found == [kind if kind in ("read", "add") else "other" for kind in chosen]
