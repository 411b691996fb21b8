"""MESSAGE frames: Java's bytes, what protobuf reads in them, and the forms for older clients."""

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.protocol.commands import decode_command
from mledger.broker.protocol.message_frames import MessageFrames
from mledger.broker.protocol.versions import ClientFeatures
from tests.support.recordings import golden

JAVA = [
    one
    for file in golden.files("pulsar-frames/frames-*.json")
    for one in golden.load(file)["frames"]
    if one["commandType"] == "MESSAGE"
]
BODY = b"\x00\x00\x00\x08metadatapayload"
CHECKED = b"\x0e\x01" + google_crc32c.value(BODY).to_bytes(4, "big") + BODY
BROKER = b"\x0e\x02\x00\x00\x00\x02\x10\x07"
numbers = st.one_of(st.integers(0, 300), st.integers(0, 2**62))


def split(parts):
    """The commands and entries of frames."""
    data, found = b"".join(parts), []
    while data:
        size, length = int.from_bytes(data[:4], "big"), int.from_bytes(data[4:8], "big")
        found.append((decode_command(data[8 : 8 + length]).body, data[8 + length : 4 + size]))
        data = data[4 + size :]
    return found


@pytest.mark.parametrize("one", JAVA, ids=lambda one: one["name"])
def test_a_message_has_java_s_fields(one):
    meant = one["meaning"]
    data = bytes.fromhex(one["hex"])
    length = int.from_bytes(data[4:8], "big")
    java, entry = decode_command(data[8 : 8 + length]).body, data[8 + length :]
    position = java.message_id
    sets = {position.entryId: meant["ackSet"]} if "ackSet" in meant else {}
    frames = MessageFrames(java.consumer_id, partition=position.partition, broker_metadata=True)
    parts = frames.parts(position.ledgerId, [position.entryId], [entry], [meant["redeliveryCount"]], sets)
    ((ours, same),) = split(parts)
    if position.partition == -1:
        position.ClearField("partition")  # Java writes the default
    else:
        assert b"".join(parts) == data
    assert (ours, same) == (java, entry)


@given(
    consumer=numbers,
    partition=st.integers(-1, 2**31 - 1),
    ledger=numbers,
    epoch=st.integers(-1, 2**40),
    entries=st.dictionaries(
        numbers,
        st.tuples(
            st.binary(max_size=20).filter(lambda data: not data.startswith(b"\x0e")),
            st.integers(0, 2**31),
            st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
        ),
        max_size=6,
    ),
)
def test_frames_of_a_run_say_what_they_are_given(consumer, partition, ledger, epoch, entries):
    ids, stored = list(entries), [entry for entry, _, _ in entries.values()]
    counts = [count for _, count, _ in entries.values()]
    sets = {number: words for number, (_, _, words) in entries.items() if words}
    parts = MessageFrames(consumer, partition=partition).parts(ledger, ids, stored, counts, sets, epoch)
    found = split(parts)
    assert [entry for _, entry in found] == stored
    for (message, _), number, count in zip(found, ids, counts, strict=True):
        position = message.message_id
        assert (message.consumer_id, position.ledgerId, position.entryId) == (consumer, ledger, number)
        assert position.partition == partition
        assert message.redelivery_count == count
        assert list(message.ack_set) == sets.get(number, [])
        assert message.HasField("consumer_epoch") is (epoch >= 0)
        assert message.consumer_epoch == max(epoch, 0)


def test_large_entries_are_not_copied():
    large = b"x" * 5000
    parts = MessageFrames(1).parts(7, range(2), [large, b"small"])
    assert any(part is large for part in parts)
    assert [entry for _, entry in split(parts)] == [large, b"small"]


@pytest.mark.parametrize(
    ("features", "exposed", "taken"),
    [
        (ClientFeatures(version=21, reads_broker_metadata=True), True, BROKER + CHECKED),
        (ClientFeatures(version=21, reads_broker_metadata=True), False, CHECKED),
        (ClientFeatures(version=21), True, CHECKED),
        (ClientFeatures(version=17, reads_broker_metadata=True), True, CHECKED),
        (ClientFeatures(version=10), True, BODY),
    ],
)
def test_each_client_gets_the_form_that_it_takes(features, exposed, taken):
    frames = MessageFrames.to(features, 1, broker_metadata_exposed=exposed)
    ((_, entry),) = split(frames.parts(7, [0], [BROKER + CHECKED]))
    assert entry == taken


def test_entries_without_checksum_or_broker_metadata_go_out_as_they_are():
    frames = MessageFrames.to(ClientFeatures(version=10), 1)
    assert [entry for _, entry in split(frames.parts(7, range(2), [BODY, b""]))] == [BODY, b""]
