"""Every entry that Java's bookies held in the scenarios of tests/golden/entries."""

import struct

import pytest

from mledger.bookie.digest import make_digest
from mledger.metastore.records.codec import decode_position_info, encode_position_info
from mledger.metastore.records.ledger_codec import decode_ledger_metadata
from mledger.metastore.records.ledger_metadata import DigestType
from mledger.metastore.records.paths import ledger_id_from_path
from tests.support.recordings import golden, golden_meaning

FILES = golden.files("entries/*.json")
HEADER = struct.Struct(">qqqq")


@pytest.mark.parametrize("file", FILES)
def test_every_replica_of_every_entry_verifies(file):
    for entry in golden.entries(file):
        digest = make_digest(entry.digest_type, entry.password)
        end = HEADER.size + digest.size
        header, value, payload = entry.data[: HEADER.size], entry.data[HEADER.size : end], entry.data[end:]
        assert digest.verify(header, payload, value), str(entry)
        ledger, number, lac, length = HEADER.unpack(header)
        assert (ledger, number) == (entry.decoded["ledgerId"], entry.decoded["entryId"]), str(entry)
        assert lac < number, str(entry)
        assert length >= len(payload), str(entry)


@pytest.mark.parametrize("file", FILES)
def test_an_entry_has_the_parts_that_java_reads(file):
    for stage in golden.load(file)["stages"]:
        for ledger in stage["ledgers"]:
            digest = make_digest(golden.digest_type(ledger["digestType"]), b"")
            for entry in ledger["entries"]:
                data, decoded = bytes.fromhex(entry["hex"]), entry["decoded"]
                fields = ("ledgerId", "entryId", "lastAddConfirmed", "length")
                assert HEADER.unpack_from(data) == tuple(decoded[name] for name in fields)
                end = HEADER.size + digest.size
                assert data[HEADER.size : end].hex() == decoded.get("digest_hex", "")
                assert data[end:].hex() == decoded["payload_hex"]


@pytest.mark.parametrize("file", FILES)
def test_lengths_add_up_the_payloads(file):
    for stage in golden.load(file)["stages"]:
        for ledger in stage["ledgers"]:
            total = 0
            for at, entry in enumerate(ledger["entries"]):
                assert entry["entry"] == at
                total += len(entry["decoded"]["payload_hex"]) // 2
                assert entry["decoded"]["length"] == total


@pytest.mark.parametrize("file", FILES)
def test_every_cursor_state_is_read_and_written_back(file):
    for entry in golden.entries(file):
        if "position_info" in entry.decoded:
            payload = bytes.fromhex(entry.decoded["payload_hex"])
            state = decode_position_info(payload, str(entry)).value
            assert golden_meaning.position_info(state) == entry.decoded["position_info"], str(entry)
            assert encode_position_info(state) == payload, str(entry)
        else:
            assert entry.kind == "data", str(entry)


def test_all_digest_types_are_among_the_entries():
    assert {entry.digest_type for file in FILES for entry in golden.entries(file)} == set(DigestType)


@pytest.mark.parametrize("file", golden.files("znodes/bk-ledgers-*.json"))
def test_entries_of_ledgers_with_every_metadata_version_verify(file):
    content = golden.load(file)
    password = bytes.fromhex(content["password_hex"])
    types = {
        ledger_id_from_path(node.path): decode_ledger_metadata(node.data, node.path).digest_type
        for node in golden.nodes(file)
        if node.decoded is not None and node.decoded.get("type") == "LedgerMetadata"
    }
    for ledger in content["ledgers"]:
        assert ledger["ledgerId"] in types
    for ledger in content["entries"]:
        # Version 1 does not keep the type; these ledgers were made with CRC32.
        digest = make_digest(types[ledger["ledgerId"]] or DigestType.CRC32, password)
        for entry in ledger["entries"]:
            data = bytes.fromhex(entry["hex"])
            end = HEADER.size + digest.size
            assert digest.verify(data[: HEADER.size], data[end:], data[HEADER.size : end]), entry["decoded"]
            assert HEADER.unpack_from(data)[:2] == (ledger["ledgerId"], entry["entry"])
            assert data[end:].hex() == entry["decoded"]["payload_hex"]
