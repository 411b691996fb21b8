"""Transaction logs: torn ends are recognised, and no changed byte loses a transaction silently."""

import io

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from mledger.snapshot import CorruptFile, MissingLog, ZxidNotCovered
from mledger.snapshot.zookeeper_files.jute import CloseSession, CreateNode, Failed
from mledger.snapshot.zookeeper_files.transaction_log import LogFile, follows, log_zxid, read_chain
from tests.support.zookeeper.zookeeper_files import framed, log_bytes, transaction_bytes
from tests.support.zookeeper.zookeeper_history import MemoryFiles

ACL = ((31, "world", "anyone"),)
EPOCH = 1 << 32


def records(first=1, count=4):
    return [
        transaction_bytes(zxid, ("set", f"/n{zxid}", b"B" * (zxid % 5), 1), time=zxid * 10, digest=zxid)
        for zxid in range(first, first + count)
    ]


def read(data, name="log.1"):
    log = LogFile(MemoryFiles({name: data}), name)
    return list(log.transactions(after=0)), log.torn_at


def zxids(data, name="log.1"):
    transactions, torn = read(data, name)
    return [transaction.zxid for transaction in transactions], torn


@pytest.mark.parametrize("padding", [0, 1, 12, 4096, 3 << 20])
def test_zeros_after_the_last_record_are_its_end(padding):
    assert zxids(log_bytes(records(), padding=padding)) == ([1, 2, 3, 4], None)


def test_a_log_longer_than_a_window_is_read_whole():
    large = [transaction_bytes(zxid, ("set", "/n", bytes([zxid]) * 700_000, 1)) for zxid in range(1, 6)]
    transactions, torn = read(log_bytes(large))
    assert [transaction.operation.data for transaction in transactions] == [bytes([n]) * 700_000 for n in range(1, 6)]
    assert torn is None


def test_an_empty_file_is_one_whose_header_was_not_written():
    assert zxids(b"") == ([], 0)
    assert zxids(b"ZKLG\0\0") == ([], 0)


@pytest.mark.parametrize("padding", [0, 300])
def test_a_partly_written_last_record_is_torn(padding):
    whole = log_bytes(records(count=3), padding=0)
    last = framed(records(first=4, count=1)[0])
    assert last.startswith(bytes(4)), "a checksum begins with 4 zeros, like the padding"
    for written in range(5, len(last)):
        found, torn = zxids(whole + last[:written] + bytes(padding))
        assert (found, torn) == ([1, 2, 3], len(whole))


def test_a_torn_record_with_another_after_it_is_corrupt():
    whole = log_bytes(records(count=3), padding=0)
    torn, further = framed(records(first=4, count=1)[0]), framed(records(first=5, count=1)[0])
    hole = torn[:20] + bytes(len(torn) - 20)
    with pytest.raises(CorruptFile, match=f"log.1 is corrupt at byte {len(whole)}"):
        read(whole + hole + further + bytes(100))


def test_a_file_that_grows_while_it_is_read_ends_at_its_first_end():
    """The reader's first read ends in padding. Then the server writes on, and the second read finds more."""
    whole = log_bytes(records(), padding=0)
    begun, grown = whole + bytes(2 << 20), whole + framed(transaction_bytes(5, ("set", "/n", b"x" * (1 << 20), 1)))
    looks = iter([begun[: 1 << 20] + grown[1 << 20 :], grown])

    class Growing(MemoryFiles):
        def open(self, name):
            return io.BytesIO(next(looks))

    log = LogFile(Growing({}), "log.1")
    assert [transaction.zxid for transaction in log.transactions(after=0)] == [1, 2, 3, 4]
    assert log.torn_at is None


@settings(max_examples=500, deadline=None)
@given(st.sampled_from([0, 64]), st.data())
def test_a_changed_byte_is_reported_or_changes_nothing(padding, data):
    whole = log_bytes(records(), padding=padding)
    at = data.draw(st.integers(0, len(whole) - 1))
    value = data.draw(st.integers(0, 255))
    assume(whole[at] != value)
    changed = whole[:at] + bytes([value]) + whole[at + 1 :]
    try:
        transactions, torn = read(changed)
    except CorruptFile:
        event("corrupt")
        return
    if torn is None:
        assert transactions == read(whole)[0]
    else:
        event("torn")
        assert transactions == read(whole)[0][: len(transactions)]
        assert len(transactions) >= 3, "only the last record can be torn"


@given(st.integers(0, 3))
def test_a_changed_length_never_swallows_the_following_records(record):
    whole = bytearray(log_bytes(records(), padding=0))
    at = 16 + sum(len(framed(one)) for one in records(count=record)) + 8
    for value in (0, 1, 40, 200, 5000, 1 << 20):
        whole[at : at + 4] = value.to_bytes(4, "big")
        with pytest.raises(CorruptFile):
            read(bytes(whole))


def test_a_renamed_log_is_refused():
    with pytest.raises(CorruptFile, match="its first zxid is 0x1: the file was renamed"):
        read(log_bytes(records()), "log.2")


def test_zxids_that_do_not_rise_are_refused():
    with pytest.raises(CorruptFile, match="zxid 0x2 comes after 0x2"):
        read(log_bytes([*records(count=2), *records(first=2, count=1)]))


def test_another_kind_of_file_is_refused():
    with pytest.raises(CorruptFile, match="unlike ZooKeeper's logs"):
        read(bytes(1000))


def test_an_unknown_operation_is_refused():
    unknown = bytearray(records(count=1)[0])
    unknown[31] = 99
    with pytest.raises(CorruptFile, match="zxid 0x1 does not parse: operation 99 is unknown"):
        read(log_bytes([bytes(unknown)]))


def test_a_creation_before_3_4_has_no_cversion():
    (transaction,), _ = read(log_bytes([transaction_bytes(1, ("old create", "/a", b"x", ACL, True), session=9)]))
    assert transaction.operation == CreateNode("/a", b"x", ACL, 9, -1)


@pytest.mark.parametrize("digest", [None, 0, -1, 1 << 40])
@pytest.mark.parametrize("paths", [None, (), ("/a",), ("/a", "/bü"), ("/" + "x" * 300,)])
def test_a_closing_session_is_read_with_and_without_its_list_of_nodes(paths, digest):
    (transaction,), _ = read(log_bytes([transaction_bytes(1, ("close", paths), digest=digest)]))
    assert transaction.operation == CloseSession(paths)
    assert (transaction.digest and transaction.digest.value) == digest


def test_a_failed_request_changes_nothing_but_counts():
    (transaction,), _ = read(log_bytes([transaction_bytes(1, ("error", -101))]))
    assert transaction.operation == Failed(-101)


@pytest.mark.parametrize("name", ["log.1", "log.1ab00000001"])
def test_names_of_logs(name):
    assert log_zxid(name) == int(name.removeprefix("log."), 16)


@pytest.mark.parametrize("name", ["log", "log.5.bak", "log.x", "snapshot.5"])
def test_names_of_other_files(name):
    assert log_zxid(name) is None


def test_files_that_follow_a_zxid():
    assert follows(7, 8)
    assert follows(EPOCH + 7, 2 * EPOCH + 1)
    assert follows(EPOCH + 7, 4 * EPOCH + 1)
    assert not follows(7, 9)
    assert not follows(7, 7)
    assert not follows(EPOCH + 7, 2 * EPOCH + 2)


def chain(logs, after, until):
    files = MemoryFiles({name: log_bytes(parts) for name, parts in logs.items()})
    return [transaction.zxid for transaction in read_chain(files, list(logs), after, until)]


def test_a_chain_begins_and_ends_within_files():
    logs = {"log.1": records(1, 4), "log.5": records(5, 4), "log.9": records(9, 4)}
    assert chain(logs, 2, 10) == list(range(3, 11))
    assert chain(logs, 4, 4) == []


def test_a_missing_file_in_a_chain_is_reported():
    with pytest.raises(MissingLog, match=r"after zxid 0x4 are missing: log\.9 continues with 0x9"):
        chain({"log.1": records(1, 4), "log.9": records(9, 4)}, 2, 10)


def test_a_chain_that_ends_early_is_reported():
    with pytest.raises(ZxidNotCovered, match="end at zxid 0x4, before 0x9"):
        chain({"log.1": records(1, 4)}, 2, 9)


def test_a_chain_of_two_histories_is_reported():
    with pytest.raises(CorruptFile, match=r"log\.4 repeats zxid 0x4 after 0x5"):
        chain({"log.1": records(1, 5), "log.4": records(4, 5)}, 2, 8)


def test_a_torn_end_before_a_later_file_loses_nothing_that_the_later_one_has():
    torn = log_bytes(records(1, 3), padding=0) + framed(records(4, 1)[0])[:-9]
    files = MemoryFiles({"log.1": torn, "log.4": log_bytes(records(4, 2))})
    assert [one.zxid for one in read_chain(files, ["log.1", "log.4"], 0, 5)] == [1, 2, 3, 4, 5]
