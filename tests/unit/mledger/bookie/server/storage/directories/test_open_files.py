"""How many files a bookie's storage keeps open, and what it does when the system has none left."""

import errno
import os

import pytest

from mledger.bookie.server.storage.directories import open_files
from mledger.bookie.server.storage.directories.open_files import (
    INDEX_FILES,
    JOURNAL_FILES,
    is_passing,
    open_file_limit,
    patiently,
    plan_index_files,
    plan_journal_files,
)


def test_a_low_limit_of_the_system_leaves_most_files_to_others():
    for limit in (64, 256, 1024):
        assert plan_index_files(limit) + plan_journal_files(limit) <= limit // 2


def test_with_room_for_all_no_more_files_are_kept_than_help():
    assert (plan_index_files(1 << 20), plan_journal_files(1 << 20)) == (INDEX_FILES, JOURNAL_FILES)
    assert open_file_limit() > 0


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), True),
        (OSError(errno.EIO, os.strerror(errno.EIO)), False),
        (RuntimeError("can't start new thread"), True),
        (Exception("IO error: While open a file: 000012.sst: Too many open files"), True),
        (Exception("Corruption: block checksum mismatch"), False),
        (MemoryError(), True),
    ],
)
def test_what_the_system_lacks_for_a_while_says_nothing_about_a_disk(error, passing):
    assert is_passing(error) is passing


def test_what_fails_for_want_of_files_is_tried_again(monkeypatch):
    monkeypatch.setattr(open_files, "_PAUSE_S", 0.0)
    errors = [OSError(errno.EMFILE, "Too many open files"), OSError(errno.ENFILE, "Too many open files in system")]

    def call():
        if errors:
            raise errors.pop(0)
        return "done"

    assert patiently(call, 60.0) == "done"


@pytest.mark.parametrize(("number", "patience_s"), [(errno.EIO, 60.0), (errno.EMFILE, 0.0)])
def test_any_other_failure_and_one_that_lasts_is_raised(number, patience_s):
    calls = []

    def call():
        calls.append(None)
        raise OSError(number, os.strerror(number))

    with pytest.raises(OSError, match=os.strerror(number)):
        patiently(call, patience_s)
    assert len(calls) == 1
