"""What the logs show of each change, over random histories of a server, is what its tree was before and after."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mledger.snapshot import CorruptFile, LogDoesNotFit, MissingLog, ZxidNotCovered
from mledger.snapshot.zookeeper_files.transactions.log_range import (
    LogMark,
    LogRange,
    first_point,
    last_point,
    plan_range,
)
from mledger.snapshot.zookeeper_files.transactions.znode_changes import SET_ACL, read_changes
from tests.support.zookeeper.zookeeper_files import log_bytes, transaction_bytes
from tests.support.zookeeper.zookeeper_history import MemoryFiles, ZooKeeperHistory

SEEDS = st.integers(0, 1 << 32)
EPOCH = 1 << 32


def data(state):
    return {path: fields[0] or b"" for path, fields in state.items()}


def history(seed, *, lists=True, settled=True):
    server = ZooKeeperHistory(random.Random(seed), lists=lists)
    server.steps(30)
    server.snapshot(most_between=0 if settled else 3)
    server.steps(30)
    return server


def sets(*zxids):
    return log_bytes([transaction_bytes(zxid, ("set", "/n", b"%d" % zxid, zxid & 0xFF)) for zxid in zxids])


def read(files, after=None, until=None):
    until = last_point(files).zxid if until is None else until
    return list(read_changes(files, plan_range(files, after, until)))


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.booleans(), st.booleans())
def test_changes_lead_from_each_tree_to_the_next(seed, lists, settled):
    server = history(seed, lists=lists, settled=settled)
    tree = data(server.states[0])
    zxids = list(server.states)
    changes = read(server.files())
    for zxid in zxids[1:]:
        for change in [each for each in changes if each.zxid == zxid]:
            assert not change.known or change.before == tree.get(change.path)
            assert change.known or change.path == "/"
            if change.operation != SET_ACL:
                tree[change.path] = change.after
        tree = {path: content for path, content in tree.items() if content is not None}
        assert tree == data(server.states[zxid])


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.booleans())
def test_parts_of_a_range_are_together_the_range(seed, lists):
    server = history(seed, lists=lists)
    files, zxids = server.files(), list(server.states)[1:]
    points = sorted(random.Random(seed).sample(range(len(zxids)), 3))
    bounds = [zxids[point] for point in points]
    parts = [read(files, after, until) for after, until in pairwise(bounds)]
    whole = read(files, bounds[0], bounds[-1])
    found = [change for part in parts for change in part]
    assert [change[:6] for change in found] == [change[:6] for change in whole]
    assert all(one.before == other.before for one, other in zip(found, whole, strict=True) if one.known and other.known)


def test_a_snapshot_tells_what_was_there_before_the_logs_show_it():
    server = ZooKeeperHistory(random.Random(1))
    server.steps(60)
    server.snapshot(most_between=0)
    taken = server.tree.zxid
    server.log_starts.append(taken)  # the log that a server would keep with this snapshot
    server.steps(40)
    kept = {
        name: content for name, content in server.files().contents.items() if int(name.partition(".")[2], 16) >= taken
    }
    changes = read(MemoryFiles(kept), taken)
    assert changes
    assert all(change.known for change in changes)


def test_what_the_logs_do_not_show_is_not_known():
    (first, second) = read(MemoryFiles({"log.5": sets(5, 6)}))
    assert (first.before, first.known, first.after) == (None, False, b"5")
    assert (second.before, second.known, second.after, second.version) == (b"5", True, b"6", 6)


def test_purged_logs_are_an_error_that_names_the_gap():
    files = MemoryFiles({"log.5": sets(5, 6)})
    with pytest.raises(MissingLog, match=r"after zxid 0x2 are missing: log.5 continues with 0x5"):
        read(files, 2)


def test_a_purged_end_of_an_epoch_is_noticed_although_the_numbers_fit():
    files = MemoryFiles({"log.1": sets(1, 2), f"log.{EPOCH + 1:x}": sets(EPOCH + 1)})
    assert [change.zxid for change in read(files, 2)] == [EPOCH + 1]
    with pytest.raises(LogDoesNotFit, match="do not hold the transaction 0x3"):
        read(files, 3)


def test_a_gap_between_logs_is_an_error():
    with pytest.raises(MissingLog, match=r"after zxid 0x2 are missing: log\.4"):
        read(MemoryFiles({"log.1": sets(1, 2), "log.4": sets(4)}))


def test_logs_that_repeat_transactions_are_an_error():
    files = MemoryFiles({"log.1": sets(1, 2, 3), "log.2": sets(2, 3)})
    with pytest.raises(CorruptFile, match=r"log\.2 repeats zxid 0x2 after 0x3: two histories are mixed"):
        read(files)


def test_logs_of_another_cluster_are_told_by_the_time_of_the_transaction_to_continue_from():
    files = MemoryFiles({"log.1": sets(1, 2, 3)})
    assert [change.zxid for change in read_changes(files, plan_range(files, 2, 3, after_ms=0))] == [3]
    with pytest.raises(LogDoesNotFit, match=r"of 1970-.*, but .* is of 1970-.*: these are the logs of another cluster"):
        list(read_changes(files, plan_range(files, 2, 3, after_ms=1)))


def test_logs_that_end_before_the_range_are_an_error():
    files = MemoryFiles({"log.1": sets(1, 2)})
    with pytest.raises(ZxidNotCovered, match="end at zxid 0x2, before 0x4"):
        list(read_changes(files, LogRange(0, 4, ("log.1",))))


def test_logs_that_end_before_the_point_to_continue_from_are_an_error():
    with pytest.raises(LogDoesNotFit, match="end at zxid 0x2, before 0x4, after which to continue"):
        read(MemoryFiles({"log.1": sets(1, 2)}), 4)


def test_points_of_logs():
    files = MemoryFiles({"log.1": sets(1, 2), "log.4": sets(4, 5)})
    assert (first_point(files), last_point(files), last_point(files, until=3)) == (0, LogMark(5, 0), LogMark(2, 0))
    assert last_point(files, until_ms=-1) == LogMark(0, None)
    assert last_point(files, until_ms=0) == LogMark(5, 0)
    with pytest.raises(MissingLog, match="memory has no transaction log"):
        first_point(MemoryFiles({}))
