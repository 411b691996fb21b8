"""Batches framed in one pass equal frames made one by one, and are read back unless they are damaged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.bookie import wire
from mledger.bookie.client.connections.frames import AddFramer, open_batch, open_entry, recovery_parts
from mledger.bookie.digest import make_digest, master_key
from mledger.metastore.records.ledger_metadata import DigestType

LEDGER, PASSWORD = 7, b"secret"
DIGESTS = st.sampled_from(list(DigestType)).map(lambda kind: make_digest(kind, PASSWORD))
EQUAL = st.integers(0, 700).flatmap(
    lambda size: st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=30)
)
BATCHES = EQUAL | st.lists(st.binary(max_size=700), min_size=1, max_size=30)


def stored_entries(digest, payloads, first=0, length=0):
    entries = []
    for entry, payload in enumerate(payloads, first):
        length += len(payload)
        head = wire.ENTRY_HEAD.pack(LEDGER, entry, first - 1, length)
        entries.append(head + digest.value(head, payload) + payload)
    return entries


def batch_body(entries):
    return b"".join(len(entry).to_bytes(4, "big") + entry for entry in entries)


@given(DIGESTS, BATCHES, st.integers(0, 2**60), st.integers(0, 2**60))
def test_a_batch_is_framed_like_its_entries_one_by_one(digest, payloads, first, length):
    framer = AddFramer(LEDGER, digest, master_key(PASSWORD))
    expected = [
        wire.encode_add(master_key(PASSWORD), entry) for entry in stored_entries(digest, payloads, first, length)
    ]
    assert b"".join(framer.parts(payloads, first, first - 1, length)) == b"".join(expected)
    assert [len(frame) - 4 for frame in expected] == [framer.frame_size(len(payload)) for payload in payloads]


@given(DIGESTS, BATCHES, st.integers(0, 2**60))
def test_a_batch_read_is_opened_to_its_payloads(digest, payloads, first):
    body = batch_body(stored_entries(digest, payloads, first))
    assert open_batch(body, LEDGER, first, digest) == payloads


@given(st.sampled_from([DigestType.CRC32, DigestType.CRC32C, DigestType.HMAC]), BATCHES, st.data())
def test_payloads_end_before_the_first_damaged_entry(kind, payloads, data):
    digest = make_digest(kind, PASSWORD)
    entries = stored_entries(digest, payloads)
    damaged = data.draw(st.integers(0, len(entries) - 1))
    at = data.draw(st.integers(0, len(entries[damaged]) - 1))
    wrong = bytearray(entries[damaged])
    wrong[at] ^= 1 << data.draw(st.integers(0, 7))
    entries[damaged] = bytes(wrong)
    assert open_batch(batch_body(entries), LEDGER, 0, digest) == payloads[:damaged]


@given(DIGESTS, BATCHES)
def test_entries_out_of_order_are_not_accepted(digest, payloads):
    entries = stored_entries(digest, payloads, first=5)
    assert open_batch(batch_body(entries), LEDGER, 4, digest) == []
    assert open_batch(batch_body([*entries, entries[0]]), LEDGER, 5, digest) == payloads
    assert open_batch(batch_body(entries), LEDGER + 1, 5, digest) == []


def test_an_entry_is_accepted_only_under_its_own_id():
    digest = make_digest(DigestType.CRC32C, b"")
    (stored,) = stored_entries(digest, [b"payload"], first=3)
    opened = open_entry(stored, LEDGER, 3, digest)
    assert (opened.entry, opened.last_add_confirmed, opened.length, opened.payload) == (3, 2, 7, b"payload")
    assert open_entry(stored, LEDGER, None, digest) == opened
    assert open_entry(stored, LEDGER, 4, digest) is None
    assert open_entry(stored, LEDGER + 1, 3, digest) is None


@pytest.mark.parametrize("size", [0, 31, 35])
def test_too_few_bytes_are_no_entry(size):
    assert open_entry(bytes(size), 0, 0, make_digest(DigestType.CRC32C, b"")) is None


def test_recovery_writes_entries_back_as_they_were_stored():
    digest = make_digest(DigestType.CRC32C, b"")
    stored = stored_entries(digest, [b"one", b"two"])
    key = master_key(b"")
    flags = wire.Flag.RECOVERY_ADD | wire.Flag.HIGH_PRIORITY
    assert b"".join(recovery_parts(stored, key)) == b"".join(wire.encode_add(key, entry, flags) for entry in stored)
