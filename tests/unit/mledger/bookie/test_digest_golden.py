"""Digests, explicit-LAC packets and master keys as Java computes them (tests/golden/digests.json)."""

import struct

import pytest

from mledger.bookie.digest import explicit_lac_packet, make_digest, master_key
from mledger.metastore.records.ledger_metadata import DigestType
from tests.support.recordings import golden

CONTENT = golden.load("digests.json")
HEADER = struct.Struct(">qqqq")


def vectors_of(digest_type):
    return [vector for vector in CONTENT["vectors"] if vector["digestType"] == digest_type.name]


@pytest.mark.parametrize("digest_type", list(DigestType))
def test_digests_of_entries(digest_type):
    vectors = vectors_of(digest_type)
    assert vectors
    for vector in vectors:
        digest = make_digest(digest_type, bytes.fromhex(vector["password_hex"]))
        header, payload = bytes.fromhex(vector["header_hex"]), bytes.fromhex(vector["payload_hex"])
        value = digest.value(header, payload)
        assert value.hex() == vector["digest_hex"]
        assert len(value) == digest.size
        assert digest.values([header], [payload]) == [value]
        fields = (vector["ledgerId"], vector["entryId"], vector["lastAddConfirmed"], vector["length"])
        assert HEADER.pack(*map(int, fields)) == header
        if "entry_hex" in vector:
            assert (header + value + payload).hex() == vector["entry_hex"]


@pytest.mark.parametrize("digest_type", list(DigestType))
def test_explicit_lac_packets(digest_type):
    for vector in vectors_of(digest_type):
        digest = make_digest(digest_type, bytes.fromhex(vector["password_hex"]))
        packet = explicit_lac_packet(digest, int(vector["ledgerId"]), int(vector["lastAddConfirmed"]))
        assert packet.hex() == vector["explicit_lac_hex"]


def test_master_keys():
    for vector in CONTENT["masterKeys"]:
        assert master_key(bytes.fromhex(vector["password_hex"])).hex() == vector["masterKey_hex"]
