"""What a bookie decides without I/O: which adds are new, whose a directory is, what is garbage, read-only or not."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.bookie import request_frames, wire
from mledger.bookie.errors import InvalidBookieDirectory
from mledger.bookie.server.process.cookie_check import default_port, plan_identity
from mledger.bookie.server.process.garbage import Compaction, plan_absent, plan_due, plan_emptying, plan_freeing
from mledger.bookie.server.storage.directory import (
    FORMAT_VERSION,
    DirectoryFormat,
    decode_format,
    encode_format,
    plan_completion,
)
from mledger.bookie.server.storage.disk import Disk, DiskLimits, plan_read_only, plan_reserve
from mledger.bookie.server.storage.ledgers import LARGEST_RUN, plan_spans
from mledger.metastore.cluster.cookies import Cookie

KEY = b"k" * 20


def run_of(numbers, size=0):
    """A run of adds to ledger 1."""
    frames = [wire.encode_add(KEY, wire.ENTRY_HEAD.pack(1, number, -1, 0) + bytes(size)) for number in numbers]
    data = bytearray(b"".join(frames))
    (run,) = request_frames.scan(data, 0, len(data)).requests
    return run


@given(st.lists(st.integers(0, 30), min_size=1, max_size=30), st.integers(-1, 30))
def test_spans_keep_the_order_and_tell_new_entries_from_repeated_ones(numbers, highest):
    spans = list(plan_spans(highest, run_of(numbers)))
    assert [at for span in spans for at in range(span.first, span.last)] == list(range(len(numbers)))
    for span in spans:
        entries = numbers[span.first : span.last]
        before = max([highest, *numbers[: span.first]])
        assert span.repeated == (entries[0] <= before)
        assert not span.repeated or len(entries) == 1
        assert entries == sorted(set(entries))


@given(st.integers(1, 60), st.integers(0, 60_000))
def test_a_span_of_new_entries_is_not_larger_than_a_run_may_be(count, size):
    run = run_of(range(count), size)
    for span in plan_spans(-1, run):
        length = run.starts[span.last] - run.starts[span.first]
        assert length <= LARGEST_RUN or span.last == span.first + 1


FORMAT = DirectoryFormat(FORMAT_VERSION, "host:3181", "cluster", b"0123456789abcdef")
COOKIE = Cookie("host:3181", "/d/journal", ("/d",), "cluster")


def test_a_format_file_says_what_was_written():
    assert decode_format(encode_format(FORMAT), "FORMAT") == FORMAT


@pytest.mark.parametrize("text", ["", "something else\nversion 1\n", "mledger bookie directory\nversion 1\nbookie a\n"])
def test_a_damaged_format_file_is_refused(text):
    with pytest.raises(InvalidBookieDirectory):
        decode_format(text, "FORMAT")


def identity(found=FORMAT, begun=True, bookie_id="host:3181", instance="cluster", own=COOKIE, stored=COOKIE):
    """The plan for a directory, the expected one but for what is given."""
    return plan_identity("/d", found, begun, bookie_id, instance, own, stored)


def test_a_bookie_that_comes_back_writes_nothing():
    plan = identity()
    assert (plan.begin, plan.write_cookie) == (None, False)


def test_a_new_bookie_writes_format_and_cookie():
    plan = identity(found=None, begun=False, stored=None)
    assert plan.begin is not None
    assert (plan.begin.bookie_id, plan.begin.instance_id, plan.write_cookie) == ("host:3181", "cluster", True)


def test_a_bookie_killed_before_its_cookie_was_written_writes_it_now():
    plan = identity(begun=False, stored=None)
    assert (plan.begin, plan.write_cookie) == (None, True)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ({"found": None, "begun": False}, "is empty, but bookie host:3181 is registered"),
        ({"bookie_id": "other:1"}, "belongs to bookie host:3181"),
        ({"instance": "another"}, "belongs to the cluster cluster"),
        ({"stored": None}, "was decommissioned"),
        ({"stored": Cookie("host:3181", "/e/journal", ("/e",), "cluster")}, "names /e"),
    ],
)
def test_a_directory_that_is_not_the_bookies_is_refused(case, reason):
    with pytest.raises(InvalidBookieDirectory, match=reason):
        identity(**case)


@pytest.mark.parametrize(
    ("bookie_id", "port"), [("127.0.0.1:3181", 3181), ("other:3181", 0), ("a-name", 0), ("127.0.0.1:x", 0)]
)
def test_the_port_of_an_id_that_is_host_and_port_is_kept(bookie_id, port):
    assert default_port(DirectoryFormat(1, bookie_id, "c", b""), "127.0.0.1") == port
    assert default_port(None, "127.0.0.1") == 0


def test_a_ledger_is_due_when_it_has_been_absent_for_the_grace_period_without_a_break():
    since, due = plan_absent([1, 2], {}, 10.0, 60.0)
    assert (since, due) == ({1: 10.0, 2: 10.0}, [])
    since, due = plan_absent([2, 3], since, 30.0, 60.0)
    assert (since, due) == ({2: 10.0, 3: 30.0}, [])
    since, due = plan_absent([1, 2, 3], since, 70.0, 60.0)
    assert (since, due) == ({1: 70.0, 2: 10.0, 3: 30.0}, [2])
    assert plan_absent([1], {}, 10.0, 0.0)[1] == [1]


def test_files_of_which_little_is_needed_are_emptied_the_least_needed_first():
    sizes, live = {1: 100, 2: 100, 3: 100, 4: 100, 5: 100}, {1: 60, 2: 40, 3: 10, 5: 10}
    assert plan_emptying(sizes, live, 5, [Compaction(0.5)]) == [3, 2]
    assert plan_emptying(sizes, live, 5, [Compaction(0.2)]) == [3]
    assert plan_emptying(sizes, live, 5, [Compaction(0.2), Compaction(0.5)]) == [3, 2]
    assert plan_emptying(sizes, live, 5, []) == []
    assert plan_freeing(sorted(sizes), live, current=5) == [4]


def test_a_file_that_would_hardly_shrink_is_not_emptied():
    sizes, live, due = {1: 100, 2: 100, 5: 100}, {1: 40, 2: 40, 5: 10}, [Compaction(0.5)]
    assert plan_emptying(sizes, live, 5, due, kept={1: 9, 2: 10}) == [1]


def test_room_is_held_back_while_half_of_it_is_free_beside_it_and_again_when_three_times_is():
    assert [plan_reserve(True, free, 100) for free in (49, 50)] == [False, True]
    assert [plan_reserve(False, free, 100) for free in (299, 300)] == [False, True]


def test_a_bookie_is_read_only_until_twice_the_least_is_free():
    limits = DiskLimits(min_free_bytes=100)
    assert [plan_read_only(False, Disk(1000, free), limits) for free in (99, 100)] == [True, False]
    assert [plan_read_only(True, Disk(1000, free), limits) for free in (199, 200)] == [True, False]


def test_a_bookie_is_read_only_above_the_full_share_until_the_low_water_share():
    limits = DiskLimits(min_free_bytes=0, full_share=0.95, low_water_share=0.9)
    assert [plan_read_only(False, Disk(100, free), limits) for free in (4, 5)] == [True, False]
    assert [plan_read_only(True, Disk(100, free), limits) for free in (9, 11)] == [True, False]


def test_files_that_would_go_by_themselves_soon_are_not_emptied_before_their_deletions_have_ended():
    sizes, live = {1: 100, 2: 100, 3: 100, 5: 100}, {1: 60, 2: 40, 3: 70, 5: 10}
    due = [Compaction(0.5), Compaction(0.85, settled=True)]
    assert plan_emptying(sizes, live, 5, due, settled=()) == [2]
    assert plan_emptying(sizes, live, 5, due, settled={3, 5}) == [2, 3]


def test_a_compaction_is_due_when_its_interval_has_passed():
    minor, major = kinds = (Compaction(0.2, 3600), Compaction(0.8, 86400))
    assert plan_due(kinds, [0, 0], 3599) == []
    assert plan_due(kinds, [0, 0], 3600) == [minor]
    assert plan_due(kinds, [90000, 0], 90000) == [major]
    assert plan_due((Compaction(),), [7.0], 7.0) == [Compaction()]


@pytest.mark.parametrize("version", [1, 2])
def test_a_directory_of_a_former_version_is_read_and_becomes_one_of_this(version):
    journal = "journal journal\n" if version == 2 else ""
    fields = f"bookie host:3181\ninstance cluster\nsalt {FORMAT.salt.hex()}\n{journal}"
    text = f"mledger bookie directory\nversion {version}\n{fields}"
    found = decode_format(text, "FORMAT")
    assert (found.version, found.journal, found.complete) == (version, "journal", False)
    assert encode_format(found) == text
    assert plan_completion(found) == replace(FORMAT, complete=True)


def test_a_directory_whose_parts_were_made_is_said_to_be_complete():
    completed = plan_completion(FORMAT)
    assert completed == replace(FORMAT, complete=True)
    assert decode_format(encode_format(completed), "FORMAT") == completed
    assert plan_completion(completed) is None


@pytest.mark.parametrize("version", [0, 4, 99])
def test_a_version_that_is_not_known_is_refused_with_what_to_do(version):
    with pytest.raises(
        InvalidBookieDirectory, match=f"version {version}, this program knows 1 to 3: start the version"
    ):
        decode_format(f"mledger bookie directory\nversion {version}\n", "FORMAT")
