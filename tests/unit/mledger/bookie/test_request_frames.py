"""Frames are found in any receive buffer, of any sizes and cut anywhere, as if one by one."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.bookie import request_frames, wire
from mledger.bookie.errors import Code

KEYS = (b"a" * 20, b"b" * 20)


def add(ledger, entry, size=0, key=KEYS[0], flags=0):
    """An add request."""
    return wire.encode_add(key, wire.ENTRY_HEAD.pack(ledger, entry, entry - 1, 0) + bytes(size), flags)


def one_by_one(data):
    """The contents of a buffer, frame by frame: header word, key, ledger and entry of adds, else the frame."""
    found, at = [], 0
    while at + 4 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        if at + 4 + length > len(data):
            break
        frame = data[at : at + 4 + length]
        if frame[5] == wire.Op.ADD and frame[4] <= wire.VERSION:
            _, header, key, ledger, entry = wire.ADD_HEAD.unpack_from(frame)
            found.append((header, key, ledger, entry, at))
        else:
            found.append(frame)
        at += 4 + length
    return found, at


def flat(data, scan):
    """The same, by a scan."""
    found = []
    for request in scan.requests:
        if isinstance(request, request_frames.AddRun):
            header = wire.header_word(wire.Op.ADD, request.flags, request.version)
            for entry, start in zip(request.entries.tolist(), request.starts.tolist(), strict=False):
                found.append((header, request.master_key, request.ledger, entry, start))
        else:
            found.append(bytes(data[request.start : request.end]))
    return found


adds = st.builds(
    add,
    st.sampled_from([1, 2, 1 << 40]),
    st.integers(0, 5),
    st.sampled_from([0, 1, 16, 16, 16, 200]),
    st.sampled_from(KEYS),
    st.sampled_from([0, 0, 0, 2]),
)
reads = st.builds(wire.encode_read, st.integers(0, 3), st.integers(-1, 3))
odd_versions = st.builds(
    lambda frame, version: frame[:4] + bytes([version]) + frame[5:], adds, st.sampled_from([0, 1, 3])
)
equal = st.builds(
    lambda count, size: b"".join(add(1, n, size) for n in range(count)), st.integers(1, 40), st.integers(0, 9)
)
streams = st.lists(st.one_of(adds, adds, reads, odd_versions, equal), max_size=30).map(b"".join)


@given(streams, st.integers(0, 80))
def test_a_scan_finds_what_reading_frame_by_frame_finds(stream, cut):
    data = bytearray(stream[: max(0, len(stream) - cut)])
    expected, end = one_by_one(data)
    scan = request_frames.scan(data, 0, len(data))
    assert flat(data, scan) == expected
    assert (scan.end, scan.error) == (end, "")


@given(streams, st.lists(st.integers(1, 300), max_size=20))
def test_a_stream_cut_anywhere_gives_the_same_requests(stream, cuts):
    whole = bytearray(stream)
    buffer, filled, start, found = bytearray(len(stream) + 1), 0, 0, []
    for size in [*cuts, len(stream)]:
        piece = stream[filled : filled + size]
        buffer[filled : filled + len(piece)] = piece
        filled += len(piece)
        scan = request_frames.scan(buffer, start, filled)
        found += flat(buffer, scan)
        start = scan.end
    assert found == flat(whole, request_frames.scan(whole, 0, len(whole)))


@given(st.binary(max_size=400))
def test_any_bytes_give_requests_a_wait_or_an_error(data):
    scan = request_frames.scan(bytearray(data), 0, len(data), 300)
    assert 0 <= scan.end <= len(data)
    for request in scan.requests:
        assert 0 <= request.start < request.end <= scan.end


def test_adds_of_one_size_ledger_and_key_are_one_run():
    data = bytearray(b"".join(add(7, number, 100) for number in range(500)))
    (run,) = request_frames.scan(data, 0, len(data)).requests
    assert (run.ledger, run.master_key, len(run)) == (7, KEYS[0], 500)
    assert run.entries.tolist() == list(range(500))
    assert (run.start, run.end) == (0, len(data))


def test_adds_of_mixed_sizes_are_one_run_too():
    data = bytearray(b"".join(add(7, number, number * 37 % 100) for number in range(500)))
    (run,) = request_frames.scan(data, 0, len(data)).requests
    assert run.entries.tolist() == list(range(500))
    assert [data[at + 5] for at in run.starts[:-1]] == [wire.Op.ADD] * 500


def test_a_run_ends_where_the_ledger_or_the_key_changes():
    data = bytearray(add(1, 0) * 10 + add(2, 0) * 10 + add(2, 1, key=KEYS[1]) * 10)
    runs = request_frames.scan(data, 0, len(data)).requests
    assert [(run.ledger, run.master_key, len(run)) for run in runs] == [
        (1, KEYS[0], 10),
        (2, KEYS[0], 10),
        (2, KEYS[1], 10),
    ]


def test_the_frames_before_a_bad_one_are_found():
    bad = wire.HEAD.pack(30, wire.header_word(wire.Op.ADD)) + bytes(26)
    data = bytearray(add(1, 0) * 3 + bad + add(1, 1))
    scan = request_frames.scan(data, 0, len(data))
    assert [len(run) for run in scan.requests] == [3]
    assert scan.end == 3 * len(add(1, 0))
    assert "shorter than an entry's head" in scan.error


@pytest.mark.parametrize("length", [0, 3, 1001, 0xFFFFFFFF])
def test_a_length_outside_the_limits_is_an_error_before_the_frame_arrives(length):
    data = bytearray(struct.pack(">I", length))
    assert f"frame length {length} outside 4..1000" in request_frames.scan(data, 0, 4, 1000).error


def test_a_scan_reports_the_size_of_an_incomplete_frame():
    frame = add(1, 0, 5000)
    scan = request_frames.scan(bytearray(add(1, 0) + frame[:100]), 0, len(add(1, 0)) + 100)
    assert (scan.end, scan.next_frame) == (len(add(1, 0)), len(frame))


def test_the_frames_of_many_small_requests_are_found_in_parts():
    data = b"".join(wire.encode_read(1, number) for number in range(request_frames.MOST_FRAMES + 5))
    found = request_frames.scan(data, 0, len(data))
    rest = request_frames.scan(data, found.end, len(data))
    assert [len(each.requests) for each in (found, rest)] == [request_frames.MOST_FRAMES, 5]
    assert (found.error, found.next_frame, rest.end) == ("", 0, len(data))


def test_responses_repeat_version_ledger_and_entry_of_each_request():
    data = bytearray(b"".join(add(1 << 40, number, 9) for number in (5, 3, 8)))
    (run,) = request_frames.scan(data, 0, len(data)).requests
    frames = request_frames.add_responses(run, Code.FENCED)
    answers = [wire.decode_response(frames[at : at + 28]) for at in range(0, len(frames), 28)]
    assert [(a.version, a.op, a.error, a.ledger, a.entry) for a in answers] == [
        (2, wire.Op.ADD, Code.FENCED, 1 << 40, number) for number in (5, 3, 8)
    ]
