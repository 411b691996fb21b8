"""The transactions after a point come once and in order, or an error says which are missing."""

import pytest

from mledger.snapshot.zookeeper_files.errors import LogDoesNotFit, MissingLog, ZxidNotCovered
from mledger.snapshot.zookeeper_files.transactions.log_tail import LogTail
from tests.support.zookeeper.zookeeper_files import log_bytes, transaction_bytes
from tests.support.zookeeper.zookeeper_history import MemoryFiles

EPOCH = 1 << 32


def log(*zxids, torn=b""):
    records = [transaction_bytes(zxid, ("error", -101), time=1000 + zxid) for zxid in zxids]
    return {f"log.{zxids[0]:x}": log_bytes(records, padding=0) + torn}


def read(logs, after, **end):
    tail = LogTail(MemoryFiles(logs), after, **end)
    return [transaction.zxid for transaction in tail.transactions()], tail


def test_it_begins_after_the_point_and_goes_on_to_the_end():
    zxids, tail = read(log(1, 2, 3) | log(4, 5), 2)
    assert zxids == [3, 4, 5]
    assert (tail.zxid, tail.time_ms) == (5, 1005)


def test_a_log_that_begins_with_the_next_transaction_suffices():
    assert read(log(3, 4), 2)[0] == [3, 4]


def test_the_transaction_at_the_point_must_have_its_time():
    zxids, tail = read(log(1, 2, 3), 2, after_ms=1002)
    assert (zxids, tail.anchor_ms) == ([3], 1002)
    with pytest.raises(LogDoesNotFit, match="of different clusters"):
        read(log(1, 2, 3), 2, after_ms=1001)


def test_a_log_that_begins_behind_the_point_does_not_tell_its_time():
    assert read(log(3, 4), 2, after_ms=1001)[1].anchor_ms is None


def test_an_end_at_the_point_gives_nothing():
    zxids, tail = read(log(1, 2), 2)
    assert (zxids, tail.zxid, tail.time_ms) == ([], 2, None)


def test_it_goes_on_into_a_new_epoch():
    assert read(log(1, 2) | log(EPOCH + 1, EPOCH + 2), 2)[0] == [EPOCH + 1, EPOCH + 2]


def test_it_ends_at_a_zxid():
    zxids, tail = read(log(1, 2, 3, 4), 1, until=3)
    assert (zxids, tail.zxid) == ([2, 3], 3)


def test_it_ends_before_the_first_transaction_later_than_a_time():
    assert read(log(1, 2, 3, 4), 1, until_ms=1003)[0] == [2, 3]


def test_purged_logs_are_named_with_what_is_needed():
    with pytest.raises(MissingLog, match=r"begin at zxid 0x5, but the transactions after 0x2 are needed.*export fully"):
        read(log(5, 6), 2)


def test_a_directory_without_logs_is_refused():
    with pytest.raises(MissingLog, match="no transaction log"):
        read({"snapshot.1": b""}, 2)


def test_a_missing_file_in_between_is_reported():
    with pytest.raises(MissingLog, match="after zxid 0x3 are missing: log"):
        read(log(2, 3) | log(6, 7), 2)


def test_logs_of_a_later_epoch_alone_may_hide_a_gap():
    with pytest.raises(LogDoesNotFit, match="do not hold the transaction 0x3"):
        read(log(1, 2) | log(EPOCH + 1), 3)


def test_logs_that_end_before_the_point_are_another_history():
    with pytest.raises(LogDoesNotFit, match="they end before it"):
        read(log(1, 2), 9)


def test_a_zxid_past_the_end_is_refused():
    with pytest.raises(ZxidNotCovered, match=r"0x9 is beyond the logs in memory, which end at 0x2"):
        read(log(1, 2), 1, until=9)


def test_a_zxid_before_the_point_is_refused():
    with pytest.raises(ZxidNotCovered, match="0x1 is before 0x2"):
        read(log(1, 2), 2, until=1)


def test_a_torn_end_is_told():
    _, tail = read(log(1, 2, torn=b"\1" * 8 + b"\0\0\0\7abc"), 1)
    assert len(tail.warnings) == 1
    assert "after 0x2" in tail.warnings[0]
