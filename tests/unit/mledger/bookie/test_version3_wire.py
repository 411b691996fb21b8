"""Version 3 adds are found in any receive buffer as protobuf's parser finds them, and kept as version 2's."""

import itertools

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mledger.bookie import request_frames, version3_wire, wire
from mledger.bookie.errors import Code
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb
from mledger.bookie.version3_reads import ReadRun
from tests.support.bookies.version3 import add, request

KEYS = (b"a" * 20, b"b" * 20)

adds = st.builds(
    add,
    st.sampled_from([1, 1, 1, 200, 1 << 40]),
    st.sampled_from([0, 1, 127, 128, 16_383, 16_384, 1 << 50]),
    st.sampled_from([b"", b"x", b"x" * 60, b"x" * 60, b"x" * 200]),
    transaction=st.sampled_from([0, 1, 127, 128, 1 << 35, (1 << 64) - 1]),
    key=st.sampled_from(KEYS),
    recovery=st.booleans(),
    priority=st.sampled_from([None, None, 0, 100]),
    write_flags=st.sampled_from([None, None, 1, -1]),
)
reads = st.builds(lambda number: request(pb.READ_ENTRY, number, ledgerId=1, entryId=number), st.integers(0, 300))
others = st.one_of(
    reads, st.just(request(pb.READ_LAC, ledgerId=1)), st.just(request(pb.READ_ENTRY, ledgerId=1, entryId=-1))
)


def one_by_one(data):
    """The contents of a buffer by protobuf's parser: adds as version 2 frames with their transactions, other frames."""
    found, at = [], 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        message = pb.Request.FromString(data[at + 4 : end])
        if message.header.operation == pb.ADD_ENTRY:
            body, flags = message.addRequest, 2 * message.addRequest.HasField("flag")
            flags |= wire.Flag.HIGH_PRIORITY if message.header.priority else 0
            found.append((message.header.txnId, wire.encode_add(body.masterKey, body.body, flags)))
        else:
            found.append(data[at:end])
        at = end
    return found


def flat(data, scan):
    """The same, by a scan."""
    found = []
    for asked in scan.requests:
        if isinstance(asked, version3_wire.TransactionRun):
            cuts = asked.starts.tolist()
            frames = [asked.frames[first:last] for first, last in itertools.pairwise(cuts)]
            found += zip(asked.transactions.view(numpy.uint64).tolist(), frames, strict=True)
            check_shared(asked, frames)
        elif isinstance(asked, ReadRun):
            found += [data[first:last] for first, last in itertools.pairwise(asked.starts)]
        else:
            found.append(data[asked.start : asked.end])
    return found


def check_shared(run, frames):
    """Assert that what a run says of its frames is true."""
    for frame, entry in zip(frames, run.entries.tolist(), strict=True):
        _, header, key, ledger, number = wire.ADD_HEAD.unpack_from(frame)
        shared = wire.header_word(wire.Op.ADD, run.flags), run.master_key, run.ledger, entry
        assert (header, key, ledger, number) == shared
    entries = run.entries.tolist()
    assert run.rising == (entries == sorted(set(entries)))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(adds, adds, adds, others), max_size=40), st.integers(1, 3))
def test_adds_are_found_as_if_parsed_one_by_one(frames, times):
    data = b"".join(frame for frame in frames for _ in range(times))
    scan = version3_wire.scan(bytearray(data), 0, len(data))
    assert (scan.end, scan.error) == (len(data), "")
    assert flat(data, scan) == one_by_one(data)


@settings(max_examples=60, deadline=None)
@given(st.lists(adds, min_size=1, max_size=30), st.sampled_from([Code.OK, Code.FENCED]))
def test_responses_are_those_that_protobuf_writes(frames, code):
    data = b"".join(frames)
    scan = version3_wire.scan(data, 0, len(data))
    status = version3_wire.STATUS[code]
    expected = []
    for frame in frames:
        asked = pb.Request.FromString(frame[4:])
        add_response = pb.AddResponse(
            status=status, ledgerId=asked.addRequest.ledgerId, entryId=asked.addRequest.entryId
        )
        header = pb.BKPacketHeader(version=3, operation=pb.ADD_ENTRY, txnId=asked.header.txnId)
        answer = pb.Response(header=header, status=status, addResponse=add_response).SerializeToString()
        expected.append(wire.LENGTH.pack(len(answer)) + answer)
    assert b"".join(run.responses(code) for run in scan.requests) == b"".join(expected)


@pytest.mark.parametrize("first", [0, (1 << 63) - 20, 1 << 63, (1 << 64) - 20])
def test_many_responses_are_written_as_each_alone(first):
    """Parsers that take a number of more than 64 bits for an error would drop the connection."""
    numbers = numpy.arange(20, dtype=numpy.uint64) + numpy.uint64(first)
    entries = numpy.arange(20, dtype=numpy.int64)
    together = version3_wire.add_responses(5, numbers.view(numpy.int64), entries)
    pairs = zip(numbers.tolist(), entries.tolist(), strict=True)
    assert together == b"".join(version3_wire.add_response(5, number, entry, 0) for number, entry in pairs)


def test_many_similar_adds_are_one_run():
    data = b"".join(add(7, number, b"payload", transaction=1000 + number) for number in range(2000))
    (run,) = version3_wire.scan(bytearray(data), 0, len(data)).requests
    assert (len(run), run.lowest, run.highest, run.rising) == (2000, 0, 1999, True)
    assert run.part(5, 8).responses() == b"".join(run.part(at, at + 1).responses() for at in (5, 6, 7))


def test_the_frames_of_a_full_buffer_are_found_in_parts():
    data = b"".join(add(7, number) for number in range(request_frames.MOST_FRAMES + 5))
    (run,) = (found := version3_wire.scan(bytearray(data), 0, len(data))).requests
    (rest,) = version3_wire.scan(bytearray(data), found.end, len(data)).requests
    assert (run.highest + 1, rest.lowest, len(rest)) == (request_frames.MOST_FRAMES, request_frames.MOST_FRAMES, 5)
    assert (found.error, found.next_frame) == ("", 0)


@pytest.mark.parametrize("cut", [1, 4, 5, 40])
def test_an_incomplete_frame_is_left(cut):
    data = add(7, 0) + add(7, 1)
    scan = version3_wire.scan(data, 0, len(data) - cut)
    assert (scan.end, scan.error, len(scan.requests)) == (len(add(7, 0)), "", 1)
    assert scan.next_frame in (0, len(add(7, 1)))


def test_the_scan_ends_where_version_2_begins():
    data = add(7, 0) + wire.encode_read(7, 0)
    assert version3_wire.scan(data, 0, len(data)).end == len(add(7, 0))


@pytest.mark.parametrize("length", [0, 3, wire.MAX_FRAME + 1, 0xFFFFFFFF])
def test_an_impossible_length_is_an_error(length):
    data = add(7, 0) + wire.LENGTH.pack(length) + b"\n" + bytes(20)
    scan = version3_wire.scan(data, 0, len(data))
    assert scan.end == len(add(7, 0))
    assert f"frame length {length} outside" in scan.error


@pytest.mark.parametrize(
    "frame",
    [
        add(7, 0, key=b"short"),
        add(7, 0, body=b"too short for an entry"),
        add(7, 0, body=wire.ENTRY_HEAD.pack(7, 1, 0, 0) + b"another entry's"),
        add(7, 0, body=wire.ENTRY_HEAD.pack(8, 0, 0, 0) + b"another ledger's"),
    ],
)
@pytest.mark.parametrize("times", [1, 20])
def test_an_add_that_cannot_be_stored_is_not_taken(frame, times):
    data = frame * times
    scan = version3_wire.scan(data, 0, len(data))
    assert scan.requests == [request_frames.OtherFrame(at * len(frame), (at + 1) * len(frame)) for at in range(times)]
