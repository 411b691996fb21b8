"""Which files serve a point in time, and the error if none do."""

import os

import pytest

from mledger.snapshot import (
    DataDirectory,
    ExactTree,
    FileNotReadable,
    LocalFiles,
    MissingLog,
    NoSnapshotFile,
    TruncatedFile,
    ZxidNotCovered,
)
from tests.support.zookeeper.zookeeper_files import SnapshotWriter, framed, log_bytes, transaction_bytes
from tests.support.zookeeper.zookeeper_history import MemoryFiles

ACL = ((31, "world", "anyone"),)
EPOCH = 1 << 32


def snapshot(zxid, settled=None):
    writer = SnapshotWriter({}, {1: ACL})
    writer.node("/", b"", 1, (0, zxid, 0, 0, 0, 0, 0, 0, zxid))
    return writer.finish(digest=None, last_zxid=settled or zxid)


def records(*zxids):
    return [transaction_bytes(zxid, ("set", "/", b"", zxid & 0xFFFF), time=1000 + zxid % EPOCH) for zxid in zxids]


def files(snapshots=(), logs=None):
    contents = {f"snapshot.{zxid:x}": snapshot(zxid) for zxid in snapshots}
    contents |= {f"log.{zxids[0]:x}": log_bytes(records(*zxids)) for zxids in logs or []}
    return MemoryFiles(contents | {"currentEpoch": b"1", "log.1.bak": b"", "snapshot.7.tmp": b""})


def plan(found, **at):
    return DataDirectory(found).plan(**at)


THREE = files((0, 4, 8), [range(1, 5), range(5, 9), range(9, 13)])


def chosen(**at):
    found = plan(THREE, **at)
    list(ExactTree(THREE, found).nodes())
    return found.snapshot, found.logs, found.zxid


def test_the_newest_point_needs_the_newest_snapshot_and_the_log_after_it():
    assert chosen() == ("snapshot.8", ("log.9",), 12)


def test_a_zxid_needs_the_snapshot_before_it():
    assert chosen(zxid=6) == ("snapshot.4", ("log.5",), 6)
    assert chosen(zxid=4) == ("snapshot.4", (), 4)
    assert chosen(zxid=3) == ("snapshot.0", ("log.1",), 3)
    assert chosen(zxid=0) == ("snapshot.0", (), 0)


def test_a_time_between_two_transactions_is_the_first_of_them():
    assert chosen(time_ms=1006) == ("snapshot.4", ("log.5",), 6)
    assert chosen(time_ms=1008)[2] == 8
    assert chosen(time_ms=99_999)[2] == 12


def test_a_time_before_all_logs_is_refused():
    with pytest.raises(ZxidNotCovered, match="no transaction log in memory reaches back"):
        plan(THREE, time_ms=1000)


def test_a_zxid_beyond_the_files_is_refused():
    with pytest.raises(ZxidNotCovered, match="zxid 0xd is beyond the files in memory, which end at 0xc"):
        plan(THREE, zxid=13)


def test_a_zxid_older_than_all_snapshots_is_refused():
    with pytest.raises(ZxidNotCovered, match="no snapshot here is as old as zxid 0x3"):
        plan(files((4,), [range(1, 9)]), zxid=3)
    with pytest.raises(ZxidNotCovered, match="no snapshot here is as old as zxid 0x0:"):
        plan(files((4,), [range(1, 9)]), zxid=0)


def test_a_missing_log_after_the_snapshot_is_reported():
    with pytest.raises(MissingLog, match=r"after zxid 0x4 are missing: log\.9 continues with 0x9"):
        plan(files((4,), [range(9, 13)]))


def test_a_missing_log_further_on_is_reported_while_reading():
    found = files((0,), [range(1, 5), range(9, 13)])
    with pytest.raises(MissingLog, match=r"after zxid 0x4 are missing: log\.9 continues with 0x9"):
        list(ExactTree(found, plan(found)).nodes())


def test_a_later_snapshot_makes_a_missing_log_irrelevant():
    assert plan(files((0, 10), [range(1, 5), range(9, 13)])).snapshot == "snapshot.a"


def test_a_snapshot_newer_than_all_logs_is_the_newest_point():
    found = plan(files((0, 20), [range(1, 5)]))
    assert (found.snapshot, found.logs, found.zxid, found.time_ms) == ("snapshot.14", (), 20, None)


@pytest.mark.parametrize("logs", [[], [range(1, 5)]])
def test_a_tree_without_logs_after_its_snapshot_is_as_old_as_that_and_says_so(logs):
    """As in the dataDir of a server whose logs are in its dataLogDir."""
    found = files((0, 20), logs)
    (warning,) = plan(found).warnings
    assert "as old as that file" in warning
    assert "the option logs" in warning
    assert plan(found, zxid=20).warnings == ()
    assert plan(THREE).warnings == ()


def test_a_time_after_the_logs_is_refused_if_a_later_snapshot_exists():
    with pytest.raises(MissingLog, match="no log has the time"):
        plan(files((0, 20), [range(1, 5)]), time_ms=2000)


def test_a_zxid_in_a_gap_is_refused():
    with pytest.raises(MissingLog, match="after zxid 0x4 are missing"):
        plan(files((0, 20), [range(1, 5), range(21, 24)]), zxid=10)


def test_a_new_epoch_leaves_no_gap():
    found = files((0, EPOCH), [range(1, 5), range(EPOCH + 1, EPOCH + 4)])
    assert plan(found).snapshot == "snapshot.100000000"
    assert plan(found, zxid=100).zxid == 4
    assert plan(found, zxid=EPOCH).zxid == EPOCH
    only = files((0,), [range(1, 5), range(EPOCH + 1, EPOCH + 4)])
    assert len(list(ExactTree(only, plan(only)).nodes())) == 1


def test_a_snapshot_still_being_written_is_skipped_with_a_warning():
    found = files((0, 8), [range(1, 13)])
    found.contents["snapshot.8"] = found.contents["snapshot.8"][:-9]
    point = plan(found)
    assert (point.snapshot, point.zxid) == ("snapshot.0", 12)
    assert point.warnings == ("snapshot.8 is incomplete and is ignored",)


def test_files_without_a_whole_snapshot_are_refused():
    found = files((8,), [range(1, 13)])
    found.contents["snapshot.8"] = found.contents["snapshot.8"][:-9]
    with pytest.raises(TruncatedFile, match=r"snapshot\.8 is truncated"):
        plan(found)


def test_a_torn_end_is_reported_and_left_out():
    found = files((0,), [range(1, 5)])
    found.contents["log.1"] = log_bytes(records(1, 2, 3), padding=0) + framed(records(4)[0])[:-9] + bytes(64)
    point = plan(found)
    assert point.zxid == 3
    end = len(log_bytes(records(1, 2, 3), padding=0))
    assert point.warnings == (f"log.1 ends at byte {end} within an incompletely written transaction, after 0x3",)
    assert plan(found, zxid=2).warnings == ()
    with pytest.raises(ZxidNotCovered, match="end at 0x3"):
        plan(found, zxid=4)


def test_a_log_just_begun_counts_for_nothing():
    found = files((0,), [range(1, 5)])
    found.contents["log.5"] = log_bytes([])
    assert plan(found).zxid == 4
    found.contents["log.5"] = b""
    assert plan(found).zxid == 4
    assert plan(found, time_ms=5000).zxid == 4


def test_a_snapshot_can_be_excluded():
    point = DataDirectory(THREE, without=["snapshot.8", "snapshot.4"]).plan()
    assert (point.snapshot, point.logs) == ("snapshot.0", ("log.1", "log.5", "log.9"))


def test_a_zxid_and_a_time_together_are_refused():
    with pytest.raises(ValueError, match="not both"):
        plan(THREE, zxid=1, time_ms=1)


def test_a_directory_without_snapshots_is_refused():
    with pytest.raises(NoSnapshotFile, match="memory has no snapshot file"):
        DataDirectory(files((), [range(1, 5)]))


def write(directory, names):
    os.makedirs(directory)
    for name in names:
        (directory / name).write_bytes(THREE.contents[name])


def test_a_data_directory_is_read_with_its_version_folder_and_its_log_directory(tmp_path):
    write(tmp_path / "data" / "version-2", ["snapshot.0", "snapshot.4"])
    write(tmp_path / "logs" / "version-2", ["log.1", "log.5"])
    local = LocalFiles(str(tmp_path / "data"), str(tmp_path / "logs"))
    point = plan(local)
    assert (point.snapshot, point.logs, point.zxid) == ("snapshot.4", ("log.5",), 8)
    assert [node.path for node in ExactTree(local, point).nodes()] == ["/"]


def test_a_backup_is_read_without_a_version_folder(tmp_path):
    write(tmp_path / "backup", ["snapshot.4", "log.5"])
    assert plan(LocalFiles(str(tmp_path / "backup"))).zxid == 8


def test_a_missing_directory_is_reported(tmp_path):
    with pytest.raises(FileNotReadable, match="nowhere cannot be read: No such file or directory"):
        DataDirectory(LocalFiles(str(tmp_path / "nowhere")))


def test_a_vanishing_file_is_reported(tmp_path):
    write(tmp_path / "data", ["snapshot.4", "log.5"])
    local = LocalFiles(str(tmp_path / "data"))
    point = plan(local)
    (tmp_path / "data" / "snapshot.4").unlink()
    with pytest.raises(FileNotReadable, match=r"snapshot\.4 cannot be read"):
        list(ExactTree(local, point).nodes())
