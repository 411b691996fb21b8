"""SENDs that go on with the one before: what is compared means what protobuf says, whatever stands between."""

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.protocol.receiver import FRAME_PADDING, Receiver
from mledger.broker.protocol.requests import CorruptSend
from tests.support.brokers.broker_requests import ReceiverByProtobuf, outcome, send


def checked(payload):
    """An entry with its checksum."""
    return b"\x0e\x01" + google_crc32c.value(payload).to_bytes(4, "big") + payload


entries = st.one_of(
    st.binary(max_size=40),
    st.binary(min_size=16, max_size=16),
    st.just(b"metadata").map(checked),
    st.just(b"\x0e\x01" + bytes(12)),  # its checksum is another
)
firsts = st.one_of(st.integers(0, 300), st.integers(2**14 - 40, 2**14), st.integers(2**63 - 40, 2**63 - 1))


@given(
    producer=st.sampled_from([0, 1, 127, 128, 300]),
    first=firsts,
    sends=st.lists(st.tuples(st.integers(0, 3), entries, st.sampled_from([None, 1, 2])), max_size=40),
)
def test_sends_mean_what_protobuf_says(producer, first, sends):
    data, sequence = b"", first
    for step, entry, messages in sends:
        sequence = min(sequence + step, 2**63 - 1)
        fields = {} if messages is None else {"num_messages": messages}
        data += send(producer, sequence, entry, **fields)
    assert outcome(Receiver(), data) == outcome(ReceiverByProtobuf(), data)


@given(
    producer=st.sampled_from([0, 127, 128]),
    first=firsts,
    number=st.integers(1, 200),
    payload=st.binary(min_size=2, max_size=12),
    changes=st.lists(st.tuples(st.integers(0, 8000), st.integers(0, 255)), max_size=3),
    cut=st.integers(0, 60),
)
def test_damaged_sends_of_one_size_mean_what_protobuf_says(producer, first, number, payload, changes, cut):
    whole = b"".join(send(producer, min(first + at, 2**63 - 1), checked(payload)) for at in range(number))
    data = bytearray(whole[: len(whole) - min(cut, len(whole))])
    for at, byte in changes:
        if at < len(data):
            data[at] = byte
    assert outcome(Receiver(), bytes(data)) == outcome(ReceiverByProtobuf(), bytes(data))


@pytest.mark.parametrize("size", [1, 9, 10, 30])
@pytest.mark.parametrize("first", [0, 1, 126, 127, 128, 16382])
def test_sequence_ids_grow_longer(first, size):
    ids = list(range(first, first + 300))
    (run,), error = Receiver().receive(b"".join(send(sequence=each, entry=b"%d" % each + bytes(size)) for each in ids))
    assert error is None
    assert run.sequence_ids == ids
    assert run.entries == [b"%d" % each + bytes(size) for each in ids]
    assert run.messages == [1] * 300


@pytest.mark.parametrize("number", [3, 30])
def test_a_corrupt_entry_is_told_apart(number):
    sent = [checked(b"metadata")] * number
    sent[1] = b"\x0e\x01" + bytes(4) + b"metadata"
    (before, corrupt, after), error = Receiver().receive(
        b"".join(send(sequence=at, entry=each) for at, each in enumerate(sent))
    )
    assert error is None
    assert (before.sequence_ids, after.sequence_ids) == ([0], list(range(2, number)))
    assert corrupt == CorruptSend(1, 1)


def test_a_frame_that_ends_within_its_command_ends_the_connection():
    data = send(sequence=1) + (8).to_bytes(4, "big") + send(sequence=2)[4:]
    requests, error = Receiver().receive(data)
    assert [run.sequence_ids for run in requests] == [[1]]
    assert error is not None


def test_a_large_frame_is_refused():
    receiver = Receiver(max_message_size=100)
    data = send(sequence=1, entry=bytes(50)) + send(sequence=2, entry=bytes(100 + FRAME_PADDING))
    requests, error = receiver.receive(data)
    assert [run.sequence_ids for run in requests] == [[1]]
    assert "frame" in str(error)
