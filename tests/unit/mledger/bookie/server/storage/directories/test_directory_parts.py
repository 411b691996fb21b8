"""Whose journal and index these are, and which journal files must exist: checked before anything is opened."""

import pytest
from msgspec.structs import replace

from mledger.bookie.errors import InvalidBookieDirectory
from mledger.bookie.server.storage.directories.directory_parts import (
    INDEX,
    JOURNAL,
    FoundPart,
    Identity,
    check_parts,
    find_part,
    plan_cut_files,
    plan_missing_files,
    write_identity,
)

OWN = (
    Identity(JOURNAL, "host:3181", "cluster", b"0123456789abcdef"),
    Identity(INDEX, "host:3181", "cluster", b"0123456789abcdef"),
)


def check(*, complete=True, **changed):
    """Check parts that are correct except for what is given."""
    found = {own.part: FoundPart(f"/{own.part}", own.encode(), True) for own in OWN}
    for part, values in changed.items():
        found[part] = replace(found[part], **values)
    check_parts("/d", OWN, found, complete=complete)


def test_parts_of_the_directory_are_accepted():
    check()


@pytest.mark.parametrize("part", [JOURNAL, INDEX])
@pytest.mark.parametrize("lost", [{"identity": None}, {"begun": False}, {"identity": None, "begun": False}])
def test_a_missing_part_is_named_with_what_to_do(part, lost):
    with pytest.raises(InvalidBookieDirectory, match=f"/{part} is not the {part} of bookie host:3181.*mount its disk"):
        check(**{part: lost})


@pytest.mark.parametrize("other", [replace(OWN[0], salt=b"another one 1234"), replace(OWN[0], bookie_id="other:1")])
@pytest.mark.parametrize("complete", [True, False])
def test_another_bookies_journal_is_refused(other, complete):
    with pytest.raises(InvalidBookieDirectory, match=f"but of bookie {other.bookie_id}: mount the right disk"):
        check(journal={"identity": other.encode()}, complete=complete)


def test_the_index_in_the_journals_place_is_refused():
    with pytest.raises(InvalidBookieDirectory, match="is not the journal"):
        check(journal={"identity": OWN[1].encode()})


def test_a_new_directory_has_no_parts_yet():
    absent = {"identity": None, "begun": False}
    check(complete=False, journal=absent, index=absent)


def test_a_journal_without_its_index_is_refused_even_before_anything_has_an_identity():
    with pytest.raises(InvalidBookieDirectory, match="/index is not the index"):
        check(complete=False, journal={"identity": None}, index={"identity": None, "begun": False})


def test_an_identity_is_read_back_as_written(tmp_path):
    assert find_part(str(tmp_path), True).identity is None
    write_identity(str(tmp_path), OWN[0])
    assert find_part(str(tmp_path), True).identity == OWN[0].encode()
    assert [path.name for path in tmp_path.iterdir()] == ["BOOKIE"]


def test_files_that_rows_name_and_the_first_to_replay_must_exist():
    assert plan_missing_files([1, 2, 3], {1: 10, 2: 0}, 3, complete=True) == []
    assert plan_missing_files([3, 4], {1: 10, 2: 0, 9: -5}, 3, complete=True) == [1]
    assert plan_missing_files([1, 4], {1: 10}, 3, complete=True) == [3]
    assert plan_missing_files([], {}, 0, complete=True) == []


def test_an_earlier_version_may_have_freed_the_first_file_to_replay_but_not_the_last():
    assert plan_missing_files([4], {}, 3, complete=False) == []
    assert plan_missing_files([2], {}, 3, complete=False) == [3]
    assert plan_missing_files([], {}, 3, complete=False) == [3]


def test_files_are_cut_off_that_are_shorter_than_when_they_began():
    assert plan_cut_files({1: 4096, 2: 8192, 3: 0, 4: 9000}, {1: 4097, 2: 8192, 3: 1, 4: 8192}) == [1, 3]


def test_a_file_whose_size_was_not_noted_is_not_cut_off():
    assert plan_cut_files({1: 0}, {2: 4096}) == []
