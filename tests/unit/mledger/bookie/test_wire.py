"""Requests and responses are read back as written, and truncated ones are refused."""

import pytest

from mledger.bookie import wire

KEYS = (b"a" * 20, b"b" * 20)


def test_read_requests_are_read_back_as_written():
    read = wire.decode_read(wire.encode_read(5, -1, wire.Flag.FENCE | wire.Flag.HIGH_PRIORITY, KEYS[0]))
    assert (read.ledger, read.entry, read.fencing, read.master_key, read.batch) == (5, -1, True, KEYS[0], None)
    batch = wire.decode_read(wire.encode_batch_read(5, 6, 7, 8, 9))
    assert (batch.ledger, batch.entry, batch.fencing, batch.batch) == (5, 6, False, wire.BatchReadRequest(7, 8, 9))


@pytest.mark.parametrize("size", [0, 8, 20, 27])
def test_a_truncated_response_is_malformed(size):
    with pytest.raises(wire.MalformedFrame):
        wire.decode_response(wire.encode_response(wire.Op.READ, 0, 1, 2)[:size])


@pytest.mark.parametrize("body", [b"\x00", b"\x00\x00\x00\x05abcd"])
def test_a_batch_read_body_with_a_wrong_size_is_malformed(body):
    with pytest.raises(wire.MalformedFrame):
        list(wire.batch_entries(body))
