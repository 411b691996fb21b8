"""How topics, ledgers and files are divided into shares."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.snapshot.source.splits import (
    BYTES_A_SHARE,
    LEDGERS_A_SHARE,
    MOST_FILE_SHARES,
    MOST_SHARES,
    TOPICS_A_SHARE,
    plan_count,
    plan_file_count,
    split_folders,
    split_topics,
)

COUNTS = st.integers(1, 9) | st.none()
CORES = st.integers(1, 5)


@given(st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("nopqrstu"), min_size=1)), COUNTS, CORES)
def test_topics_are_split_without_gap_or_overlap(names, count, cores):
    shares = split_topics([(folder, len(found)) for folder, found in names.items()], count, cores)
    total = sum(map(len, names.values()))
    assert len(shares) <= min(count or cores, total)
    found = [
        (part.folder, name)
        for share in shares
        for part in share.ranges
        for name in names[part.folder]
        if part.has(name)
    ]
    assert sorted(found) == sorted((folder, name) for folder, some in names.items() for name in some)


@given(st.dictionaries(st.text("0123456789", min_size=1), st.integers(1, 10_000)), COUNTS, CORES)
def test_folders_are_split_without_gap_or_overlap(folders, count, cores):
    shares = split_folders(list(folders.items()), count, cores)
    assert sorted(folder for share in shares for folder in share.folders) == sorted(folders)
    assert all(share.folders for share in shares)


@given(st.lists(st.integers(1, 3 * TOPICS_A_SHARE), min_size=1), CORES)
def test_no_share_is_larger_than_the_smallest_by_more_than_one_folder(sizes, cores):
    folders = [(str(at), size) for at, size in enumerate(sizes)]
    weights = [sum(dict(folders)[each] for each in share.folders) for share in split_folders(folders, None, cores)]
    assert max(weights) - min(weights) <= max(sizes)


def test_a_folder_is_listed_by_one_share():
    shares = split_topics([(str(at), TOPICS_A_SHARE) for at in range(40)], None, cores=8)
    assert len(shares) == 40
    assert [len(share.ranges) for share in shares] == [1] * 40
    assert all(part.count == 1 for share in shares for part in share.ranges)


def test_a_folder_of_most_topics_is_listed_once_for_each_core():
    shares = split_topics([("large", 50 * TOPICS_A_SHARE), ("small", 10)], None, cores=4)
    parts = [part for share in shares for part in share.ranges]
    assert [part.index for part in parts if part.folder == "large"] == [0, 1, 2, 3]
    assert [part.count for part in parts if part.folder == "small"] == [1]


def test_shares_follow_the_size_and_are_as_many_as_the_cores():
    assert plan_count(100, TOPICS_A_SHARE, cores=8) == 1
    assert plan_count(TOPICS_A_SHARE, TOPICS_A_SHARE, cores=2) == 2
    assert plan_count(TOPICS_A_SHARE, TOPICS_A_SHARE, cores=64) == 4
    assert plan_count(30 * TOPICS_A_SHARE, TOPICS_A_SHARE, cores=2) == 30
    assert plan_count(10**9, LEDGERS_A_SHARE, cores=64) == MOST_SHARES


def test_a_small_file_is_read_by_one_worker_and_a_large_one_by_as_many_as_there_are_cores_up_to_a_few():
    assert plan_file_count(BYTES_A_SHARE, cores=2) == 1
    assert plan_file_count(3 << 30, cores=2) == 2
    assert plan_file_count(3 << 30, cores=64) == MOST_FILE_SHARES
