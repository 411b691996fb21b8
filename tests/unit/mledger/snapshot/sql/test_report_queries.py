"""The report's own queries, their results computed by hand (see snapshot_pairs.py)."""

import pytest

from mledger.snapshot.sql.queries import Query, in_older_snapshot, open_snapshots
from mledger.snapshot.sql.report_queries import (
    BACKLOG_CHANGES,
    DISTRIBUTIONS,
    NAMESPACE_SUBSCRIPTIONS,
    NAMESPACE_TOPICS,
    NAMESPACES,
    SIZE_CHANGES,
    first_of_each,
)
from tests.support.snapshots.exports import write_snapshot
from tests.support.snapshots.snapshot_pairs import IDLE, NOW, TOPIC, cursor, listed, topic, write_both

KEPT = "persistent://t/n/kept"


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    before, now = write_both(tmp_path_factory.mktemp("reported"))
    with open_snapshots(str(now), str(before)) as snapshots:
        yield snapshots


def rows(snapshots, query):
    return [tuple(row.values()) for row in snapshots.ask(query).to_pylist()]


def test_a_namespace_has_the_sums_of_its_topics(both):
    assert rows(both, NAMESPACES) == [("t/n", 3, 5, 22, 7001, 8, 2)]


def test_backlogs_that_changed_most_come_first_whichever_way(both):
    """slow: 26 entries (600 and 4000 B) before, 19 now (2900 B). quick: 14 of ledger 2 (2800 B) before, 3 now."""
    assert rows(both, BACKLOG_CHANGES) == [
        (TOPIC, "quick", 14, 3, -11, 300 - 2800),
        (TOPIC, "slow", 26, 19, -7, 2900 - 4600),
    ]


def test_a_topic_in_one_of_two_snapshots_had_or_has_no_bytes(both):
    assert rows(both, SIZE_CHANGES) == [
        (KEPT, 0, 800, 800, 3),
        (IDLE, 0, 701, 701, 1),
        (TOPIC, 5000, 5500, 500, 1),
    ]


def test_the_first_rows_of_each_namespace(both):
    assert rows(both, first_of_each(NAMESPACE_TOPICS, 2)) == [
        ("t/n", TOPIC, 4, 22, 5500, 4, 2, 1),
        ("t/n", KEPT, 1, 0, 800, 3, 0, 2),
    ]
    assert rows(both, first_of_each(NAMESPACE_SUBSCRIPTIONS, 1)) == [("t/n", TOPIC, "slow", 19, 2900, 2, 4, "znode", 1)]


@pytest.mark.parametrize(
    ("value", "backlog", "size"), [(0, -1, -1), (1, 0, 0), (2, 1, 0), (5, 2, 1), (9, 2, 1), (10, 3, 1), (4096, 10, 6)]
)
def test_bins_begin_at_their_round_numbers(tmp_path, value, backlog, size):
    now = write_snapshot(
        tmp_path,
        "now",
        NOW,
        topics=[topic(TOPIC, 1, 1, value, value, cursors=1, ledgers=6, created=NOW)],
        topic_ledgers=[listed(TOPIC, 1, value, value, NOW)],
        cursors=[cursor(TOPIC, "s", 1, -1)],
    )
    with open_snapshots(str(now)) as snapshots:
        assert rows(snapshots, DISTRIBUTIONS) == [("backlog", backlog, 1), ("bytes", size, 1), ("ledgers", 2, 1)]


def test_tables_and_views_of_the_older_snapshot_are_named_and_columns_are_not():
    sql = "select t.ledgers, cursors from topics t left join cursor_backlog c on t.ledgers = c.entries"
    assert in_older_snapshot(sql) == (
        "select t.ledgers, cursors from before_topics t left join before_cursor_backlog c on t.ledgers = c.entries"
    )


def test_the_views_of_the_older_snapshot_have_its_rows(both):
    found = both.ask(Query("older", "", "", "select cursor, entries from before_cursor_backlog order by cursor"))
    assert [tuple(row.values()) for row in found.to_pylist()] == [("back", 0), ("done", 0), ("quick", 14), ("slow", 26)]
