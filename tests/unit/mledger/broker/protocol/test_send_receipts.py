"""SEND_RECEIPTs: Java's bytes, and what protobuf reads in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.protocol.receiver import Receiver
from mledger.broker.protocol.requests import NO_SEQUENCE
from mledger.broker.protocol.send_receipts import send_receipts, unstored_receipts
from tests.support.recordings import golden

JAVA = [
    one
    for file in golden.files("pulsar-frames/frames-*.json")
    for one in golden.load(file)["frames"]
    if one["name"] == "send-receipt"
]
numbers = st.one_of(st.integers(0, 300), st.integers(0, 2**63 - 100))


@pytest.mark.parametrize("one", JAVA)
def test_a_receipt_is_java_s_bytes(one):
    meant = one["meaning"]
    ledger, entry = meant["messageId"]
    sent = send_receipts(meant["producerId"], ledger, entry, [meant["sequenceId"]], [meant["highestSequenceId"]])
    assert sent == bytes.fromhex(one["hex"])


@given(
    producer=numbers,
    ledger=numbers,
    first=numbers,
    ids=st.lists(st.tuples(st.integers(-1, 2**63 - 1), st.one_of(st.just(NO_SEQUENCE), numbers)), max_size=8),
)
def test_receipts_of_a_run_follow_each_other(producer, ledger, first, ids):
    sent = send_receipts(producer, ledger, first, [one[0] for one in ids], [one[1] for one in ids])
    commands, error = Receiver().receive(sent)
    assert error is None
    assert [command.name for command in commands] == ["SEND_RECEIPT"] * len(ids)
    for number, (command, (sequence, highest)) in enumerate(zip(commands, ids, strict=True)):
        receipt = command.body
        assert (receipt.producer_id, receipt.sequence_id) == (producer, sequence % 2**64)
        assert (receipt.message_id.ledgerId, receipt.message_id.entryId) == (ledger, first + number)
        assert receipt.HasField("highest_sequence_id") is (highest != NO_SEQUENCE)
        assert receipt.highest_sequence_id == max(highest, 0)


def test_receipts_of_entries_whose_numbers_grow_longer_in_a_run():
    sent = send_receipts(1, 7, 126, [16382, 16383, 16384, 16385], [NO_SEQUENCE] * 4)
    receipts = [command.body for command in Receiver().receive(sent).requests]
    assert [one.message_id.entryId for one in receipts] == [126, 127, 128, 129]
    assert [one.sequence_id for one in receipts] == [16382, 16383, 16384, 16385]


def test_receipts_of_entries_in_no_ledger_have_one_id():
    sent = unstored_receipts(1, 0, 0, [5, 300], [NO_SEQUENCE, 310])
    receipts = [command.body for command in Receiver().receive(sent).requests]
    assert [(one.message_id.ledgerId, one.message_id.entryId) for one in receipts] == [(0, 0), (0, 0)]
    assert [(one.sequence_id, one.highest_sequence_id) for one in receipts] == [(5, 0), (300, 310)]


@pytest.mark.parametrize("entry", [0, 100, 16_300, 2**42 - 7])
@pytest.mark.parametrize("sequence", [0, 120, 16_320, 2**62 - 3])
@pytest.mark.parametrize("number", [63, 64, 300])
def test_many_receipts_in_a_row_are_those_of_each_by_itself(number, sequence, entry):
    ids = list(range(sequence, sequence + number))
    each = [send_receipts(300, 7, entry + at, [one], [NO_SEQUENCE]) for at, one in enumerate(ids)]
    assert send_receipts(300, 7, entry, ids, [NO_SEQUENCE] * number) == b"".join(each)


@pytest.mark.parametrize("change", [(-5, 10), (5, -2), (70, 10)], ids=["highest id", "below 0", "a gap"])
def test_many_receipts_that_are_not_in_a_row_are_those_of_each_by_itself(change):
    ids, highest = list(range(100)), [NO_SEQUENCE] * 100
    if change[0] < 0:
        highest[change[0]] = change[1]
    else:
        ids[change[0]] = change[1]
    each = [send_receipts(1, 7, at, [ids[at]], [highest[at]]) for at in range(100)]
    assert send_receipts(1, 7, 0, ids, highest) == b"".join(each)
