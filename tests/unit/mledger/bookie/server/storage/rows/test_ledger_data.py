"""The record of a ledger, as bytes."""

import pytest

from mledger.bookie.server.storage.rows.ledger_data import LedgerData

KEY = b"k" * 20


@pytest.mark.parametrize(
    ("record", "encoded"),
    [
        (LedgerData(KEY), KEY + b"\0"),
        (LedgerData(KEY, fenced=True), KEY + b"\1"),
        (LedgerData(KEY, limbo=True, explicit_lac=b"lac"), KEY + b"\2lac"),
        (LedgerData.without_key(fenced=True, limbo=True), bytes(20) + b"\7"),
    ],
)
def test_a_record_keeps_its_bytes(record, encoded):
    assert record.encode() == encoded
    assert LedgerData.decode(encoded) == record
