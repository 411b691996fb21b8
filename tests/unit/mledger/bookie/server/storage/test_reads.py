"""What a bookie answers to a read of what it does not have."""

import pytest
from msgspec.structs import replace

from mledger.bookie import wire
from mledger.bookie.errors import Code
from mledger.bookie.server.storage.ledgers import NO_ENTRY, LedgerDescriptor
from mledger.bookie.server.storage.reads import check_read, missing
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
