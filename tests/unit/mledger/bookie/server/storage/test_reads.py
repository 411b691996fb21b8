"""What a bookie answers to a read of what it does not have, and reads without waiting for the disk."""

import os

import pytest
from msgspec.structs import replace

from mledger.bookie import wire
from mledger.bookie.errors import Code
from mledger.bookie.server.storage.ledgers import NO_ENTRY, LedgerDescriptor
from mledger.bookie.server.storage.reads import JournalReader, check_read, missing
from mledger.bookie.server.storage.rows.index import Row
from mledger.bookie.server.storage.rows.ledger_data import LedgerData

KEY = b"k" * 20


@pytest.mark.parametrize("record", [LedgerData(KEY, limbo=True, lacking=True), LedgerData(KEY, lacking=True)])
def test_absence_is_proven_from_the_first_entry_on_that_an_owner_sent_since(record):
    state = LedgerDescriptor(1, replace(record, whole_from=5), 9, False)
    assert [missing(state, entry, fencing=True) for entry in (4, 5)] == [Code.UNKNOWN_LEDGER_STATE, Code.NO_ENTRY]
    assert check_read(state, wire.LAST_ENTRY, fencing=True) == Code.OK


@pytest.mark.parametrize(
    ("record", "plain", "fencing"),
    [
        (LedgerData(KEY), True, True),
        (LedgerData(KEY, lacking=True), True, False),
        (LedgerData(KEY, limbo=True, lacking=True), False, False),
    ],
)
def test_absence_is_proven_unless_entries_may_have_been_lost(record, plain, fencing):
    state = LedgerDescriptor(1, record, NO_ENTRY, False)
    for proven, flag in ((plain, False), (fencing, True)):
        assert missing(state, 0, fencing=flag) == (Code.NO_ENTRY if proven else Code.UNKNOWN_LEDGER_STATE)
        assert check_read(state, wire.LAST_ENTRY, fencing=flag) == (Code.OK if proven else Code.UNKNOWN_LEDGER_STATE)
        assert check_read(state, 0, fencing=flag) == Code.OK


def test_a_run_that_is_not_in_the_page_cache_is_not_waited_for_on_the_loop(tmp_path, monkeypatch):
    (tmp_path / "00000001.journal").write_bytes(bytes(100))

    def cold(descriptor, buffers, offset, flags=0):
        if flags & os.RWF_NOWAIT:
            raise BlockingIOError
        pytest.fail("the disk is waited for")

    monkeypatch.setattr(os, "preadv", cold)
    reader = JournalReader(str(tmp_path))
    try:
        assert not reader.load(Row(1, 0, 9, 1, 0, 100))
    finally:
        reader.close()
