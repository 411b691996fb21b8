"""How many files a bookie's storage keeps open."""

from mledger.bookie.server.storage.directories.open_files import (
    INDEX_FILES,
    JOURNAL_FILES,
    open_file_limit,
    plan_index_files,
    plan_journal_files,
)


def test_a_low_limit_of_the_system_leaves_most_files_to_others():
    for limit in (64, 256, 1024):
        assert plan_index_files(limit) + plan_journal_files(limit) <= limit // 2


def test_with_room_for_all_no_more_files_are_kept_than_help():
    assert (plan_index_files(1 << 20), plan_journal_files(1 << 20)) == (INDEX_FILES, JOURNAL_FILES)
    assert open_file_limit() > 0
