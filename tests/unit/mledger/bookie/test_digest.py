"""Digests: the two ways of computing one agree, and a changed byte is noticed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.bookie.digest import explicit_lac_packet, make_digest, master_key
from mledger.metastore.records.ledger_metadata import DigestType

REAL = [DigestType.CRC32, DigestType.HMAC, DigestType.CRC32C]
headers = st.binary(min_size=32, max_size=32)
payloads = st.binary(max_size=600)


@given(st.sampled_from(list(DigestType)), st.lists(st.tuples(headers, payloads), max_size=4))
def test_a_batch_has_the_digests_of_its_entries(digest_type, entries):
    digest = make_digest(digest_type, b"pw")
    batch = digest.values([head for head, _ in entries], [payload for _, payload in entries])
    assert batch == [digest.value(head, payload) for head, payload in entries]
    assert all(len(value) == digest.size for value in batch)


@given(st.sampled_from(REAL), headers, st.binary(min_size=1, max_size=600), st.data())
def test_a_changed_byte_fails_the_digest(digest_type, header, payload, data):
    digest = make_digest(digest_type, b"pw")
    at = data.draw(st.integers(0, len(payload) - 1))
    changed = payload[:at] + bytes([payload[at] ^ data.draw(st.integers(1, 255))]) + payload[at + 1 :]
    value = digest.value(header, payload)
    assert digest.verify(header, payload, value)
    assert not digest.verify(header, changed, value)


def crc32c_by_its_polynomial(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return (crc ^ 0xFFFFFFFF).to_bytes(4, "big")


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513])
def test_crc32c_is_the_castagnoli_polynomial_for_small_and_large_payloads(size):
    header, payload = bytes(range(32)), bytes(range(256)) * 3
    value = make_digest(DigestType.CRC32C, b"").value(header, payload[:size])
    assert value == crc32c_by_its_polynomial(header + payload[:size])


@pytest.mark.parametrize("digest_type", list(DigestType))
def test_a_batch_of_unequal_lengths_is_refused(digest_type):
    with pytest.raises(ValueError, match="zip"):
        make_digest(digest_type, b"").values([b"\0" * 32], [])


def test_only_the_mac_depends_on_the_password():
    values = {kind: {make_digest(kind, pw).value(b"\0" * 32, b"x") for pw in (b"a", b"b")} for kind in DigestType}
    assert {kind: len(found) for kind, found in values.items() if len(found) > 1} == {DigestType.HMAC: 2}


def test_the_master_key_is_the_sha1_of_a_prefix_and_the_password():
    assert master_key(b"").hex() == "850bf1071c5e3d8c24235676f8816ae0cbe2f14f"
    assert master_key(b"a") != master_key(b"b")


def test_an_explicit_lac_packet_is_ledger_and_lac_and_their_digest():
    packet = explicit_lac_packet(make_digest(DigestType.CRC32, b""), 0, -1)
    assert packet.hex() == "0000000000000000ffffffffffffffff00000000a8dd4b20"
