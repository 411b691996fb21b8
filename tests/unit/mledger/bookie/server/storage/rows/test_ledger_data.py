"""The record of a ledger, as bytes."""

import pytest

from mledger.bookie.server.storage.rows.ledger_data import LedgerData

KEY = b"k" * 20


@pytest.mark.parametrize(
    ("record", "encoded"),
    [
        (LedgerData(KEY), KEY + b"\0"),
        (LedgerData(KEY, fenced=True), KEY + b"\1"),
        (LedgerData(KEY, limbo=True, lacking=True, explicit_lac=b"lac"), KEY + b"\x0alac"),
        (LedgerData(KEY, lacking=True), KEY + b"\x08"),
        (LedgerData.without_key(fenced=True, limbo=True), bytes(20) + b"\x0f"),
        (LedgerData(KEY, lacking=True, whole_from=0, explicit_lac=b"lac"), KEY + b"\x18" + bytes(8) + b"lac"),
    ],
)
def test_a_record_keeps_its_bytes(record, encoded):
    assert record.encode() == encoded
    assert LedgerData.decode(encoded) == record


def test_a_ledger_whose_limbo_a_former_version_noted_lacks_entries_for_good():
    assert LedgerData.decode(KEY + b"\2") == LedgerData(KEY, limbo=True, lacking=True)
