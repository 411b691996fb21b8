"""When a bookie becomes read-only for want of disk space, and when it holds room in reserve."""

import errno
import os
import sys
import threading
from types import SimpleNamespace

import pytest

from mledger.bookie.errors import DiskFull, InvalidBookieDirectory
from mledger.bookie.server.storage.directories import disk, journal_files
from mledger.bookie.server.storage.directories.disk import (
    FLUSH_BYTES,
    LARGEST_WHOLE_COMPACTION,
    Disk,
    DiskLimits,
    Reserve,
    damage_named,
    plan_compacting,
    plan_flushing,
    plan_full,
    plan_index_room,
    plan_read_only,
    plan_reserve,
)


def test_space_is_reserved_until_half_of_it_is_free_and_again_from_three_times_its_size():
    assert [plan_reserve(True, free, 100) for free in (49, 50)] == [False, True]
    assert [plan_reserve(False, free, 100) for free in (299, 300)] == [False, True]


def test_an_index_is_compacted_while_there_is_room_for_it_or_for_the_largest_compaction():
    assert [plan_compacting(free, 10, 100) for free in (110, 111)] == [False, True]
    assert [plan_compacting(free, 0, 1 << 40) for free in (256 << 20, (256 << 20) + 1)] == [False, True]
    whole = LARGEST_WHOLE_COMPACTION
    assert [plan_compacting(free, 0, 1 << 40, whole) for free in (2 << 30, (2 << 30) + 1)] == [False, True]


def test_a_bookie_is_read_only_until_twice_the_least_is_free():
    limits = DiskLimits(min_free_bytes=100)
    assert [plan_read_only(False, Disk(1000, free), limits) for free in (99, 100)] == [True, False]
    assert [plan_read_only(True, Disk(1000, free), limits) for free in (199, 200)] == [True, False]


def test_a_bookie_is_read_only_where_few_files_can_be_created_until_twice_as_many_can():
    few, limits = disk.FEWEST_FILES, DiskLimits(min_free_bytes=0)
    assert [plan_read_only(False, Disk(100, 50, files), limits) for files in (few - 1, few)] == [True, False]
    assert [plan_read_only(True, Disk(100, 50, files), limits) for files in (2 * few - 1, 2 * few)] == [True, False]
    assert "inodes" in disk.why_full([Disk(100, 50), Disk(100, 50, few)])
    assert "inodes" not in disk.why_full([Disk(100, 0)])
    assert [Disk(100, 50, files).left for files in (2 * few, few)] == [
        "50 bytes free",
        f"50 bytes and {few} inodes free",
    ]


@pytest.mark.parametrize(
    ("inodes", "free", "files"),
    [(1000, 7, 7), (1000, 0, 0), (0, 0, sys.maxsize), (1000, -1, sys.maxsize)],
    ids=["some", "none", "not counted", "in use counted only"],
)
def test_a_disk_says_how_many_files_can_be_created_on_it(monkeypatch, inodes, free, files):
    found = SimpleNamespace(f_blocks=10, f_frsize=4096, f_bavail=5, f_files=inodes, f_favail=free)
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    assert disk.disk_of("/b") == Disk(40_960, 20_480, files)


def test_a_bookie_is_read_only_above_the_full_share_until_the_low_water_share():
    limits = DiskLimits(min_free_bytes=0, full_share=0.95, low_water_share=0.9)
    assert [plan_read_only(False, Disk(100, free), limits) for free in (4, 5)] == [True, False]
    assert [plan_read_only(True, Disk(100, free), limits) for free in (9, 11)] == [True, False]


def test_each_disk_must_have_the_least_free_however_full_another_one_is():
    limits = DiskLimits(min_free_bytes=100, full_share=0.99)
    disks = {"large": Disk(10_000, 500), "small": Disk(500, 99)}  # 95 % and 80 % of them are used
    assert plan_full(False, disks, limits) == ["small"]
    assert plan_full(False, disks | {"small": Disk(500, 100)}, limits) == []
    assert plan_full(True, disks | {"small": Disk(500, 199)}, limits) == ["small"]
    assert plan_full(False, disks | {"large": Disk(100_000, 500)}, limits) == ["large", "small"]


@pytest.mark.parametrize(
    ("said", "error", "advice"),
    [
        (
            "IO error: While appending to file: /b/store/000039.sst: Input/output error",
            InvalidBookieDirectory,
            "see to the disk",
        ),
        (
            "IO error: While open a file for random read: /b/store/000039.sst: Permission denied",
            InvalidBookieDirectory,
            "see to the disk",
        ),
        ("IO error: While appending to file: /b/store/000039.sst: No space left on device", DiskFull, "Make room"),
        ("IO error: While appending to file: /b/store/000039.sst: Disk quota exceeded", DiskFull, "Make room"),
        ("Corruption: block checksum mismatch in /b/store/000039.sst", InvalidBookieDirectory, "restore the directory"),
    ],
)
def test_only_damage_is_a_reason_to_restore_a_directory(said, error, advice):
    with pytest.raises(error, match=advice), damage_named("/b"):
        raise Exception(said)


def test_who_needs_the_reserve_waits_until_another_thread_has_released_it(tmp_path, monkeypatch):
    """The file's name is gone before its blocks are free: a flush that began in between ended the bookie."""
    looked, releasing, unlink = threading.Event(), threading.Event(), os.unlink

    def unlink_slowly(path):
        unlink(path)
        releasing.set()
        assert not looked.wait(0.2), "another thread went on before the space was free"

    reserve = Reserve(str(tmp_path), 4096)
    reserve.tend()
    monkeypatch.setattr(disk, "free_bytes", lambda _: (releasing.is_set() and looked.set(), 0)[1])
    monkeypatch.setattr(disk.os, "unlink", unlink_slowly)
    waiting = threading.Thread(target=lambda: (releasing.wait(), reserve.tend()))
    waiting.start()
    reserve.tend()
    waiting.join()
    assert looked.is_set()


def test_a_reserve_that_was_released_is_kept_again_only_when_that_is_asked_for(tmp_path):
    reserve = Reserve(str(tmp_path), 4096)
    reserve.tend()
    assert [reserve.release(), reserve.release()] == [True, False]
    reserve.tend(keep=False)
    assert reserve.missing == 4096
    reserve.tend()
    assert reserve.missing == 0


def test_what_a_killed_process_left_of_a_reserve_is_removed(tmp_path):
    (tmp_path / "reserve.new").write_bytes(bytes(4096))
    Reserve(str(tmp_path), 4096)
    assert not list(tmp_path.iterdir())


def test_a_reserve_that_a_quota_refuses_is_not_asked_for_again_at_each_look(tmp_path, monkeypatch):
    def allocate(_file, _start, size):
        asked.append(size)
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    asked, reserve = [], Reserve(str(tmp_path), 4096)
    monkeypatch.setattr(os, "posix_fallocate", allocate)
    monkeypatch.setattr(journal_files, "free_bytes", lambda _: 1 << 40)  # whatever others free on this disk meanwhile
    for _ in range(3):
        reserve.tend()
    assert (asked, reserve.missing) == ([4096], 4096)


def test_all_that_a_quota_leaves_is_needed_while_it_refuses_the_reserve(tmp_path, monkeypatch):
    def allocate(_file, _start, _size):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(disk, "free_bytes", lambda _: 1 << 40)
    reserve = Reserve(str(tmp_path), 4096)
    assert (reserve.refused, reserve.needed_of(str(tmp_path))) == (False, 4096)
    with monkeypatch.context() as under_quota:
        under_quota.setattr(os, "posix_fallocate", allocate)
        reserve.tend()
    assert (reserve.refused, reserve.needed_of(str(tmp_path))) == (True, 1 << 40)
    assert reserve.needed_of("/proc") == 0
    monkeypatch.setattr(journal_files, "HOLD_AGAIN_S", 0.0)
    reserve.tend()
    assert (reserve.refused, reserve.needed_of(str(tmp_path))) == (False, 0)


def test_an_index_without_its_reserve_is_flushed_only_where_its_disk_has_room_for_that():
    unwritten, need = [100, 200], 300 + FLUSH_BYTES
    assert [plan_flushing(free, 1, unwritten) for free in (need - 1, need)] == [False, True]
    assert plan_flushing(0, 0, unwritten)


def test_the_journal_takes_less_than_fills_a_memtable_while_the_index_cannot_be_flushed():
    assert [plan_index_room([10, filled], 400) for filled in (0, 150, 299, 300, 500)] == [96, 50, 0, 0, 0]
