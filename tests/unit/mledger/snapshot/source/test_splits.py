"""How topics and folders are divided into shares."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.snapshot.source.splits import split_folders, split_topics


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("nopqrstu"))),
    st.integers(1, 9) | st.none(),
)
def test_topics_are_split_without_gap_or_overlap(names, count):
    folders = [(folder, sorted(found)) for folder, found in names.items()]
    shares = split_topics(folders, count)
    total = sum(map(len, names.values()))
    assert len(shares) <= max(1, min(count or 1, total))
    found = [
        (part.folder, name)
        for share in shares
        for part in share.ranges
        for name in sorted(names[part.folder])
        if part.first <= name <= part.last
    ]
    assert sorted(found) == sorted((folder, name) for folder, some in folders for name in some)


@given(st.lists(st.text("0123456789", min_size=1), unique=True), st.integers(1, 9) | st.none())
def test_folders_are_split_without_gap_or_overlap(folders, count):
    shares = split_folders(folders, count)
    assert sorted(folder for share in shares for folder in share.folders) == sorted(folders)
    assert all(share.folders for share in shares)
