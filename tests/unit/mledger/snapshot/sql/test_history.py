"""The figures of namespaces and topics over several snapshots, computed by hand (see snapshot_pairs.py)."""

import dataclasses
from datetime import timedelta

import pytest

from mledger.snapshot.exports.directory import find_snapshots
from mledger.snapshot.exports.manifest import Request
from mledger.snapshot.sql.history import LARGEST_TOPICS, NAMESPACE_TRENDS, TRENDS, plan_history, read_history
from mledger.snapshot.sql.queries import QueryResources, Snapshots
from tests.support.snapshots.exports import write_snapshot
from tests.support.snapshots.snapshot_pairs import HOUR, IDLE, NOW, TOPIC, listed, topic, write_both

KEPT = "persistent://t/n/kept"
THEN, LATER = (NOW - HOUR).replace(tzinfo=None), NOW.replace(tzinfo=None)


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """The newest of two snapshots, with the table `history`."""
    directory = tmp_path_factory.mktemp("kept")
    write_both(directory)
    kept = find_snapshots(str(directory))
    with Snapshots(*kept[-1]) as snapshots:
        snapshots.add_table("history", read_history(snapshots, kept, QueryResources()))
        yield snapshots


def trend(asked, level, figure):
    """The rows of a trend as (name, place, time, value)."""
    return [
        (row["name"], row["place"], row["time"], row["value"])
        for row in asked.ask(TRENDS).to_pylist()
        if (row["level"], row["figure"]) == (level, figure)
    ]


def test_the_backlog_of_a_tenant_is_that_of_all_its_subscriptions_in_each_snapshot(asked):
    """Before: slow 26, quick 14. Now: slow 19, quick 3."""
    assert trend(asked, "tenant", "backlog") == [("t", 1, THEN, 40), ("t", 1, LATER, 22)]


def test_topics_are_ranked_by_the_newest_snapshot_and_the_rest_is_summed(asked):
    assert trend(asked, "topic", "bytes") == [
        (TOPIC, 1, THEN, 5000),
        (TOPIC, 1, LATER, 5500),
        (KEPT, 2, LATER, 800),
        (IDLE, 3, LATER, 701),
        (None, None, THEN, 0),
    ]


def test_holes_and_ledgers_of_a_namespace(asked):
    assert trend(asked, "namespace", "ledgers") == [("t/n", 1, THEN, 4), ("t/n", 1, LATER, 8)]
    assert trend(asked, "namespace", "holes") == [("t/n", 1, THEN, 0), ("t/n", 1, LATER, 2)]


def test_a_namespace_has_its_figures_of_every_snapshot(asked):
    assert [tuple(row.values()) for row in asked.ask(NAMESPACE_TRENDS).to_pylist()] == [
        ("t/n", THEN, 2, 40, 5000, 4, 0),
        ("t/n", LATER, 3, 22, 7001, 8, 2),
    ]


def test_only_the_five_largest_of_each_figure_are_kept_by_name(tmp_path):
    names = [f"persistent://t/n/{number}" for number in range(9)]
    write_snapshot(
        tmp_path,
        "now",
        NOW,
        topics=[topic(name, 1, 1, 1, 1, cursors=0, ledgers=1, created=NOW) for name in names],
        topic_ledgers=[listed(name, at, 1, 10 + at, NOW) for at, name in enumerate(names)],
    )
    kept = find_snapshots(str(tmp_path))
    with Snapshots(*kept[-1]) as snapshots:
        assert snapshots.ask(LARGEST_TOPICS).column("topic").to_pylist() == names  # 0 to 4 by name, 4 to 8 by bytes
        snapshots.add_table("history", read_history(snapshots, kept, QueryResources()))
        found = trend(snapshots, "topic", "bytes")
    assert [(name, value) for name, _, _, value in found] == [
        *((names[at], 10 + at) for at in (8, 7, 6, 5, 4)),
        (None, 10 + 11 + 12 + 13),
    ]


def test_a_history_has_the_newest_snapshots_of_one_part_of_a_cluster(tmp_path):
    for number in range(4):
        write_snapshot(tmp_path, f"s{number}", NOW + timedelta(hours=number))
    found = find_snapshots(str(tmp_path))
    place, part = found[2]
    request = Request(part.request.source, (("tenant", "t"),), "pyarrow", "parquet")
    found[2] = place, dataclasses.replace(part, request=request)
    assert [manifest.name for _, manifest in plan_history(found, 30)] == ["s0", "s1", "s3"]
    assert [manifest.name for _, manifest in plan_history(found, 2)] == ["s1", "s3"]


def test_a_history_leaves_out_snapshots_of_other_clusters(tmp_path):
    for number in range(3):
        write_snapshot(tmp_path, f"s{number}", NOW + timedelta(hours=number))
    found = find_snapshots(str(tmp_path))
    place, other = found[1]
    for request in (
        dataclasses.replace(other.request, source="zk://127.0.0.1:2"),
        dataclasses.replace(other.request, options=(("logs", "/elsewhere"),)),
        dataclasses.replace(other.request, options=(("chroot", "/other"),)),
    ):
        found[1] = place, dataclasses.replace(other, request=request)
        assert [manifest.name for _, manifest in plan_history(found, 30)] == ["s0", "s2"]


def test_two_snapshots_of_the_same_moment_are_counted_once(tmp_path):
    for name, time in (("full", NOW - HOUR), ("nightly", NOW), ("weekly", NOW)):
        write_snapshot(
            tmp_path,
            name,
            time,
            topics=[topic(TOPIC, 1, 1, 1, 10, cursors=0, ledgers=1, created=NOW)],
            topic_ledgers=[listed(TOPIC, 1, 1, 10, NOW)],
        )
    kept = plan_history(find_snapshots(str(tmp_path)), 30)
    with Snapshots(*kept[-1]) as snapshots:
        snapshots.add_table("history", read_history(snapshots, kept, QueryResources()))
        assert trend(snapshots, "tenant", "bytes") == [("t", 1, THEN, 10), ("t", 1, LATER, 10)]


def test_without_snapshots_there_is_no_history():
    assert plan_history([], 30) == ()
