"""Which entries an append accepts."""

import pytest

from mledger.bookie.client.plans.entry_sizes import checked_size
from mledger.bookie.errors import EntryTooLarge


def test_the_size_is_that_of_all_payloads():
    assert checked_size([b"", b"12", b"345"], 3, "", "max_frame") == 5


def test_an_entry_over_the_limit_is_refused_with_what_to_do():
    with pytest.raises(EntryTooLarge) as refused:
        checked_size([b"12", b"3456"], 3, "ledger 7: ", "max_frame here and on the bookies")
    assert str(refused.value) == (
        "ledger 7: an entry of 4 bytes passes the limit of 3: split it, or raise max_frame here and on the bookies"
    )
