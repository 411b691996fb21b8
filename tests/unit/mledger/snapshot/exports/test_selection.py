"""Which snapshots of a directory are taken, compared and removed: without I/O."""

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mledger.snapshot.exports.destination import local_place
from mledger.snapshot.exports.manifest import Manifest, request_of
from mledger.snapshot.exports.selection import AHEAD_MS, plan_newest, plan_pair, plan_retention

NOW_MS = 10**12
HERE = local_place(Path("/kept"))


def at(name, time_ms, **options):
    request = request_of({"metadata": "zk://a:1"} | options, "pyarrow", "parquet")
    return Manifest(name, time_ms, None, request, time_ms, time_ms, (), {})


def found(*manifests):
    return [(HERE, each) for each in manifests]


def names(manifests):
    return [each.name for each in manifests]


def test_the_newest_are_kept_and_the_coming_one_counts():
    three = [at("c", 3), at("a", 1), at("b", 2)]
    assert names(plan_retention(three, 2, NOW_MS)) == ["a"]
    assert names(plan_retention(three, 2, NOW_MS, "new")) == ["a", "b"]
    assert names(plan_retention([*three, at("new", 0)], 2, NOW_MS, "new")) == ["a", "b"]
    assert plan_retention(three, 3, NOW_MS) == ()


@given(st.lists(st.integers(0, 50), unique=True), st.integers(1, 9))
def test_the_requested_number_is_kept(times, keep):
    manifests = [at(str(time), time) for time in times]
    removed = plan_retention(manifests, keep, NOW_MS)
    assert len(manifests) - len(removed) == min(keep, len(manifests))
    left = [each.time_ms for each in manifests if each not in removed]
    assert not removed or max(each.time_ms for each in removed) < min(left)


def test_snapshots_from_the_future_neither_count_nor_go():
    ahead = [at("f", NOW_MS + AHEAD_MS + 1), at("g", NOW_MS * 2)]
    assert names(plan_retention([at("a", 1), at("b", 2), *ahead], 2, NOW_MS, "new")) == ["a"]


def test_a_clock_that_is_behind_removes_nothing():
    assert plan_retention([at("a", NOW_MS), at("b", NOW_MS + 1)], 1, now_ms=5, coming="new") == ()


def test_the_newest_is_not_one_from_the_future_unless_all_are():
    ahead = at("f", NOW_MS * 2)
    assert plan_newest(found(at("a", 1), at("b", 2), ahead), NOW_MS)[1].name == "b"
    assert plan_newest(found(at("e", NOW_MS * 2 - 1), ahead), NOW_MS)[1].name == "f"


def pair(chosen, older):
    one, other = plan_pair(found(*chosen), found(*older), NOW_MS)
    return one[1].name, other and other[1].name


def test_a_directory_gives_the_newest_of_the_cluster_and_part_that_the_other_one_is_of():
    monday = at("monday", 1)
    kept = [monday, at("tuesday", 2), at("of-b", 3, metadata="zk://b:1"), at("a-tenant", 4, tenant="t")]
    assert pair(kept, [monday]) == ("tuesday", "monday")
    assert pair([at("more-of-b", 9, metadata="zk://b:1")], kept) == ("more-of-b", "of-b")


def test_places_of_different_machines_may_have_the_same_name():
    ours, theirs = replace(at("ours", 1), cluster="a"), replace(at("theirs", 2), cluster="b")
    assert pair([replace(at("now", 3), cluster="a")], [ours, theirs]) == ("now", "ours")
    assert pair([at("unknown", 3)], [ours, theirs]) == ("unknown", "theirs")


def test_a_directory_is_compared_with_itself_by_its_newest_two_of_one_part():
    kept = [at("a", 1), at("b", 2), at("other", 3, tenant="t"), at("c", 4)]
    assert pair(kept, kept) == ("c", "b")


def test_without_another_of_the_same_cluster_the_newest_is_compared():
    assert pair([at("a", 5)], [at("x", 1, metadata="zk://b:1"), at("y", 2, metadata="zk://b:1")]) == ("a", "y")
    assert pair([at("a", 5)], []) == ("a", None)
