"""What is stored of delayed messages: names, custom metadata and entries as Pulsar writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from mledger.broker.dispatch.waiting.delayed_bucket import DelayedEntry, SegmentSummary
from mledger.broker.topics.delayed.bucket_format import (
    belongs,
    bucket_name,
    custom_metadata,
    decode_segment,
    decode_summaries,
    encode_segment,
    encode_summaries,
    parse_bucket_name,
)
from mledger.metastore.errors import RecordError

TOPIC, CURSOR = "persistent://public/default/t", "sub"
entries = st.builds(DelayedEntry, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**32 - 1))


def test_a_name_says_of_which_ledgers_the_bucket_is():
    assert bucket_name(3, 17) == "#pulsar.internal.delayed.bucket_3_17"
    assert parse_bucket_name("#pulsar.internal.delayed.bucket_3_17") == (3, 17)
    for other in ("bucket_3_17", "#pulsar.internal.delayed.bucket_3", "#pulsar.internal.delayed.bucket_3_x", "a_1_2"):
        assert parse_bucket_name(other) is None


def test_a_ledger_says_whose_bucket_it_is():
    custom = dict(custom_metadata(bucket_name(1, 2), TOPIC, CURSOR))
    assert custom == {
        "application": b"pulsar",
        "component": b"delayed-index-bucket",
        "pulsar/delayedIndexBucketKey": b"#pulsar.internal.delayed.bucket_1_2",
        "pulsar/delayedIndexTopic": TOPIC.encode(),
        "pulsar/delayedIndexCursor": b"sub",
    }
    assert belongs(custom, TOPIC, CURSOR)
    assert not belongs(custom, TOPIC, "other")
    assert not belongs(custom, TOPIC + "2", CURSOR)
    assert not belongs(custom | {"component": b"schema"}, TOPIC, CURSOR)
    assert belongs({"component": b"delayed-index-bucket"}, TOPIC, CURSOR)


def test_a_segment_is_stored_in_pulsars_bytes():
    stored = bytes.fromhex("0a080896011007188001")
    assert encode_segment([DelayedEntry(150, 7, 128)]) == stored
    assert decode_segment(stored, "") == [DelayedEntry(150, 7, 128)]


def test_a_summary_is_stored_in_pulsars_bytes():
    bits = "3a30000001000000000001001000000003000500"
    assert BitMap([3, 5]).serialize().hex() == bits
    metadata = f"0a1808071214{bits}10c801189601"
    stored = f"0a{len(metadata) // 2:02x}{metadata}"
    summary = SegmentSummary(150, 200, ((7, bytes.fromhex(bits)),))
    assert encode_summaries([summary]).hex() == stored
    assert decode_summaries(bytes.fromhex(stored), "") == (summary,)


def test_a_segment_without_its_first_time_begins_at_the_end_of_the_one_before():
    stored = bytes.fromhex("0a0310c8010a03109003")
    assert [(each.first_ms, each.last_ms) for each in decode_summaries(stored, "")] == [(0, 200), (200, 400)]


@given(st.lists(entries, min_size=1, max_size=20).map(sorted))
def test_what_is_stored_is_read_again(segment):
    assert decode_segment(encode_segment(segment), "") == segment
    summary = SegmentSummary.of(segment)
    assert decode_summaries(encode_summaries([summary]), "") == (summary,)
    found = {(ledger_id, entry) for ledger_id, bits in summary.entries for entry in BitMap.deserialize(bits)}
    assert found == {(each.ledger_id, each.entry_id) for each in segment}


@pytest.mark.parametrize("stored", ["0a", "0a0410c801", "0a050a030807ff", "0a0b0a06080712023a3010c801"])
def test_damaged_bytes_are_an_error_that_names_the_entry(stored):
    with pytest.raises(RecordError, match="entry 0 of ledger 9"):
        decode_summaries(bytes.fromhex(stored), "entry 0 of ledger 9")
