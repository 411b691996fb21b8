"""What compaction keeps: the latest message of each key, in its place in its batch."""

import pytest

from mledger.broker.topics.compaction.compaction_plan import LatestMessages
from mledger.messages.pulsar_message import (
    MOST_MESSAGES,
    PulsarMessage,
    assemble_entry,
    decode_entry,
    encode_entry,
    messages,
)
from mledger.metastore.records.compression import CompressionType
from mledger.metastore.records.position import Position
from mledger.pb.PulsarApi_pb2 import BrokerEntryMetadata, EncryptionKeys, MessageMetadata


def message(text):
    """`a1` has the key `a`; `a-` has the key and no payload; `-1` has no key."""
    key, payload = (None if text[0] == "-" else text[0]), (b"" if text[1:] == "-" else text.encode())
    return PulsarMessage(payload, key=key)


def entry(*texts, batched=False, **fields):
    return encode_entry(
        [message(each) for each in texts], producer_name="p", publish_time=1, batched=batched or None, **fields
    )


def raw(payload=b"x", **fields):
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, **fields)
    return assemble_entry(metadata, payload)


def compact(*entries, keep_keyless=False):
    """What is kept of each entry."""
    latest = LatestMessages(keep_keyless=keep_keyless)
    placed = [(Position(1, number), each) for number, each in enumerate(entries)]
    for position, each in placed:
        latest.note(position, each)
    return [latest.plan_kept(position, each) for position, each in placed]


def texts(kept):
    """The payloads in a kept entry; None for a message that was removed."""
    if kept is None:
        return None
    return [None if each.compacted_out else each.payload.decode() for each in messages(decode_entry(kept))]


def test_the_latest_message_of_each_key_stays_as_it_was_stored():
    entries = [entry("a1"), entry("b1"), entry("a2")]
    assert compact(*entries) == [None, entries[1], entries[2]]


def test_a_message_without_a_payload_deletes_its_key_until_the_key_comes_again():
    entries = [entry("a1"), entry("b1"), entry("a-"), entry("b-"), entry("b2")]
    assert compact(*entries) == [None, None, None, None, entries[4]]


def test_messages_without_a_key_are_kept_only_on_request():
    entries = [entry("-1"), entry("a1"), entry("-2", "a2"), entry("-3", batched=True)]
    assert [texts(each) for each in compact(*entries)] == [None, None, [None, "a2"], None]
    assert compact(*entries, keep_keyless=True) == [entries[0], None, entries[2], entries[3]]


@pytest.mark.parametrize("compression", CompressionType)
def test_messages_of_a_batch_go_and_leave_their_places(compression):
    broker = BrokerEntryMetadata(broker_timestamp=5, index=7)
    batch = entry("a1", "b1", "a-", "c1", compression=compression, broker=broker)
    (kept, last) = compact(batch, entry("c2"))
    assert texts(kept) == [None, "b1", None, None]
    assert texts(last) == ["c2"]
    decoded = decode_entry(kept)
    assert decoded.broker == broker
    assert decoded.metadata.compression == decode_entry(batch).metadata.compression


def test_a_batch_of_which_all_is_kept_stays_as_it_is_and_one_of_which_nothing_is_goes():
    batches = [entry("a1", "b1"), entry("a2", "b2")]
    assert compact(*batches) == [None, batches[1]]


def test_what_was_compacted_before_is_compacted_again():
    (kept, _) = compact(entry("a1", "b1"), entry("a2"))
    assert [texts(each) for each in compact(kept, entry("a2"), entry("b2"))] == [None, ["a2"], ["b2"]]
    assert [texts(each) for each in compact(kept, entry("a2"), keep_keyless=True)] == [[None, "b1"], ["a2"]]


def test_a_batch_that_cannot_be_unpacked_is_kept_whole():
    damaged = raw(b"\xff\xff", num_messages_in_batch=2)
    assert compact(damaged) == [damaged]


def test_a_batch_with_more_messages_than_any_should_have_is_kept_whole():
    """Whatever it holds: these have no keys, and would go."""
    most = [b"\x00\x00\x00\x02\x18\x00" * count for count in (MOST_MESSAGES, MOST_MESSAGES + 1)]
    taken_apart, whole = (raw(each, num_messages_in_batch=len(each) // 6) for each in most)
    assert compact(taken_apart, whole) == [None, whole]


def test_an_encrypted_batch_is_one_message_with_the_key_of_its_entry():
    keys = [EncryptionKeys(key="k", value=b"v")]
    first = raw(num_messages_in_batch=2, encryption_keys=keys, partition_key="a", uncompressed_size=9)
    second = raw(num_messages_in_batch=2, encryption_keys=keys, partition_key="a", uncompressed_size=9)
    keyless = raw(num_messages_in_batch=2, encryption_keys=keys)
    assert compact(first, second, keyless) == [None, second, None]
    assert compact(first, second, keyless, keep_keyless=True) == [None, second, keyless]


def test_the_size_before_encryption_and_compression_says_whether_a_message_has_a_payload():
    keys = [EncryptionKeys(key="k", value=b"v")]
    null = raw(b"padding", encryption_keys=keys, partition_key="a", uncompressed_size=0)
    assert compact(entry("a1"), null) == [None, None]


def chunk(uuid, index, key="a"):
    return raw(uuid=uuid, chunk_id=index, num_chunks_from_msg=2, partition_key=key, uncompressed_size=9)


def test_all_chunks_of_a_message_are_kept_or_none():
    entries = [chunk("u", 0), entry("a1"), chunk("u", 1), chunk("v", 0, "b"), chunk("v", 1, "b"), entry("b1")]
    assert compact(*entries) == [entries[0], None, entries[2], None, None, entries[5]]


def test_chunks_of_a_message_that_is_not_complete_yet_replace_nothing_and_stay():
    entries = [entry("a1"), chunk("u", 0)]
    assert compact(*entries) == entries


def test_markers_and_damaged_entries_are_not_kept():
    assert compact(raw(marker_type=1, partition_key="a"), b"\x0e\x01garbage", keep_keyless=True) == [None, None]


def test_messages_that_are_removed_are_counted_also_inside_batches():
    entries = [entry("a1", "b1", batched=True), entry("c1"), entry("a2", "-1", batched=True), entry("c2")]
    latest = LatestMessages(keep_keyless=False)
    for number, each in enumerate(entries):
        latest.note(Position(1, number), each)
    kept = [latest.plan_kept(Position(1, number), each) for number, each in enumerate(entries)]
    assert latest.removed == 3  # a1, c1 and the one without a key
    for number, each in enumerate(kept):
        if each is not None:
            latest.plan_kept(Position(1, number), each)
    assert latest.removed == 3  # what was removed before counts once
