"""Each query about a snapshot, its result computed by hand (see tests/support/snapshots/snapshot_pairs.py)."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mledger.cursors.compaction import CHANGE_EVENTS, COMPACTED_SYSTEM_TOPICS, COMPACTION
from mledger.ledgers.shadow_topics import SHADOW_SOURCE
from mledger.snapshot.exports.errors import DestinationNotReadable, QueryTooLarge, SnapshotNotFound, UnknownQuery
from mledger.snapshot.sql import report_queries
from mledger.snapshot.sql.queries import CHANGES, QUERIES, Query, QueryResources, open_snapshots, query_named
from tests.support.snapshots.exports import write_snapshot
from tests.support.snapshots.snapshot_pairs import (
    HOUR,
    IDLE,
    NOW,
    TOPIC,
    cursor,
    hole,
    ledger,
    listed,
    member,
    topic,
    write_both,
)

KEPT = "persistent://t/n/kept"
REPORT_QUERIES = {each.name: each for each in vars(report_queries).values() if isinstance(each, Query)}
DOCUMENT = (Path(__file__).parents[5] / "docs" / "how-to/reports.md").read_text()


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    before, now = write_both(tmp_path_factory.mktemp("queried"))
    with open_snapshots(str(now), str(before)) as snapshots:
        yield snapshots


def answer(both, name):
    return [tuple(row.values()) for row in both.ask((QUERIES | CHANGES)[name]).to_pylist()]


def test_backlog_counts_entries_bytes_and_time_without_acknowledged_entries(both):
    """slow: the entries 4, 7, 8, 9 (of 10) of ledger 1, ten of 20 of ledger 2, all 5 of ledger 3."""
    assert answer(both, "backlog") == [
        (TOPIC, "slow", 4 + 10 + 5, 400 + 2000 + 500, 36000, 28800, 4, "znode"),
        (TOPIC, "quick", 3, 300, 14400, 1800, 4, "znode"),
        (KEPT, "only", 0, 0, None, None, 22, "znode"),
        (TOPIC, "back", 0, 0, None, None, 4, "znode"),
        (TOPIC, "done", 0, 0, None, None, 4, "snapshot"),
    ]


def test_only_the_slowest_cursor_holds_what_no_other_needs(both):
    """slow needs ledgers from 1 on, quick from 3 on: ledgers 1, in three copies, and 2, in two."""
    assert answer(both, "held_bytes") == [(TOPIC, "slow", "quick", 2, 5000, 3 * 1000 + 2 * 4000)]


def test_trimming_would_free_what_is_consumed_and_older_than_the_namespaces_retention(both):
    """kept: ledgers 20 and 21 are consumed; 21 was closed three hours ago, and retention is three and a half."""
    assert answer(both, "trim_gains") == [(KEPT, 1, 400, 800, 210, -1)]


def test_storage_counts_every_copy_by_namespace_and_by_tenant(both):
    assert answer(both, "storage_by_namespace") == [("t", "t/n", 12, 0, 7027, 15054), (None, None, 1, 0, 9, 18)]
    assert answer(both, "storage_by_tenant") == [("t", 1, 12, 7027, 15054), (None, 0, 1, 9, 18)]


def test_orphans_are_old_ledgers_of_managed_ledgers_that_nothing_names(both):
    found = [row[:2] + row[5:] for row in answer(both, "orphan_ledgers")]
    assert found == [(40, "t/n/orders", 7200), (44, "t/n/orders", 32400)]


@pytest.mark.parametrize("topic", [TOPIC, None], ids=["topic", "name-of-no-topic"])
@pytest.mark.parametrize(
    ("kind", "path", "found"),
    [
        ("topic", "/managed-ledgers/t/n/orders", []),
        ("cursor", "/managed-ledgers/t/n/orders/slow", []),
        ("topic", "/managed-ledgers/t/n/orders2", [(7,)]),
        ("cursor", "/managed-ledgers/t/n/orders2/slow", [(7,)]),
        ("ledger", "/ledgers/00/0000/L0007", [(7,)]),
    ],
)
def test_a_ledger_of_a_managed_ledger_with_an_unreadable_record_is_no_orphan(tmp_path, topic, kind, path, found):
    broken = {"path": path, "kind": kind, "topic": topic}
    write_snapshot(tmp_path, "now", NOW, ledgers=[ledger(7, 2, 0, 9, topic=topic)], errors=[broken])
    with open_snapshots(str(tmp_path)) as snapshots:
        assert [row[:1] for row in answer(snapshots, "orphan_ledgers")] == found


def test_references_dangle_unless_the_ledger_was_offloaded_and_deleted(both):
    assert answer(both, "dangling_references") == [(16, "cursor ledger", TOPIC, "slow")]


def test_ledgers_are_underreplicated_by_their_mark_or_by_a_missing_bookie(both):
    assert answer(both, "underreplicated_ledgers") == [
        (1, TOPIC, True, 0, None),
        (2, TOPIC, True, 1, 10),
        (4, TOPIC, False, 1, None),
    ]


def test_the_load_of_bookies_follows_from_ensembles(both):
    assert answer(both, "bookie_load") == [
        ("b1", "writable", "/r1", 2, 0, 30, 5000),
        ("gone", "unknown", None, 1, 0, 10, 2000),
        ("b2", "read-only", None, 2, 1, 5, 500),
        ("away", "away", None, 1, 1, 0, 0),
    ]


def test_load_counts_open_ledgers_as_far_as_their_bookies_were_asked(tmp_path):
    """Ledger 1 is open: 10 entries went to b1, b2 and b3, then 9 to b1, b2 and b4, in two copies; 2 was not asked."""
    ensembles = [member(1, bookie, 7, first_entry=0, last_entry=9) for bookie in ("b1", "b2", "b3")]
    ensembles += [member(1, bookie, None, first_entry=10) for bookie in ("b1", "b2", "b4")]
    to = write_snapshot(
        tmp_path,
        "live",
        NOW,
        topic_ledgers=[listed(TOPIC, 1, 0, 0, seen_entries=19, seen_size=1900), listed(TOPIC, 2, 0, 0)],
        ledgers=[
            ledger(1, 1, None, None, ensemble_size=3),
            ledger(2, 1, None, None, ensemble_size=3),
        ],
        ensembles=[*ensembles, member(2, "b1", None, first_entry=0)],
    )
    with open_snapshots(str(to)) as snapshots:
        rows = [tuple(row.values()) for row in snapshots.ask(QUERIES["bookie_load"]).to_pylist()]
    assert rows == [
        ("b1", "unknown", None, 2, 2, 7 + 6, 1300),
        ("b2", "unknown", None, 1, 1, 7 + 6, 1300),
        ("b3", "unknown", None, 1, 1, 7, 700),
        ("b4", "unknown", None, 1, 1, 6, 600),
    ]


def test_most_holes_counts_ranges_and_their_entries(both):
    assert answer(both, "most_holes") == [(TOPIC, "slow", 2, 2 + 10, 1, "znode")]


def test_a_cursor_that_did_not_move_while_the_topic_grew_is_stuck(both):
    assert answer(both, "stuck_cursors") == [(TOPIC, "slow", 1, 3, 5, 3600, True)]


def test_topics_without_subscriptions(both):
    assert answer(both, "topics_without_subscriptions") == [(IDLE, 1, 7, 700, 10800)]


def test_retention_has_no_effect_if_everything_ever_written_is_consumed_and_kept(both):
    """only has consumed 20 and 21, and the topic began with 20; slow needs ledger 1 of orders."""
    assert answer(both, "retention_without_effect") == [(KEPT, 2, 800, 14400)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("topics_appeared", [(IDLE, 1, 7, 0), (KEPT, 3, 8, 1)]),
        ("topics_vanished", [("persistent://t/n/old", 1, 1, 0)]),
        ("topics_moved", [(TOPIC, 1, 1, 3, 4, 30, 35)]),
        ("cursors_appeared", [(KEPT, "only", 21, 3)]),
        ("cursors_vanished", []),
        ("cursors_back", [(TOPIC, "back", 2, 19, 2, 7, "znode")]),
        ("cursors_moved", [(TOPIC, "done", 3, -1, 3, 4, "znode"), (TOPIC, "quick", 2, 5, 3, 1, "znode")]),
        ("ledgers_deleted", [(50, TOPIC, None, 1)]),
        ("bookies_changed", [("away", None, "away"), ("b2", "writable", "read-only")]),
    ],
)
def test_what_changed_between_two_snapshots(both, name, expected):
    assert answer(both, name) == expected


def test_ledgers_that_appeared(both):
    assert [row[0] for row in answer(both, "ledgers_appeared")] == [2, 3, 4, 20, 21, 22, 30, 40, 41, 42, 43, 44]


def test_a_query_about_two_snapshots_needs_the_older_one(both, tmp_path):
    _, now = write_both(tmp_path)
    with open_snapshots(str(now)) as snapshots, pytest.raises(UnknownQuery, match="--before"):
        snapshots.ask(QUERIES["stuck_cursors"])


def test_the_error_for_an_unknown_query_names_the_known_ones():
    with pytest.raises(UnknownQuery, match="backlog, held_bytes"):
        query_named("why")


def test_a_snapshot_of_an_earlier_version_has_no_rows_of_later_tables(tmp_path):
    path = write_snapshot(tmp_path, "old", NOW, topics=[])
    manifest = path / "manifest.json"
    document = json.loads(manifest.read_text())
    for later in ("tenants", "namespaces", "schemas", "brokers", "bundles"):
        del document["tables"][later]
    manifest.write_text(json.dumps(document))
    with open_snapshots(str(tmp_path)) as snapshots:
        assert {name: snapshots.count(query) for name, query in QUERIES.items() if not query.compares} == dict.fromkeys(
            [name for name, query in QUERIES.items() if not query.compares], 0
        )


def test_a_query_needs_a_snapshot(tmp_path):
    with pytest.raises(SnapshotNotFound):
        open_snapshots(str(tmp_path))


@pytest.mark.parametrize("name", [*QUERIES, *CHANGES])
def test_a_limit_gives_the_first_rows_and_the_count_has_all(both, name):
    query = (QUERIES | CHANGES)[name]
    whole = both.ask(query)
    assert both.ask(query, 1).equals(whole.slice(0, 1))
    assert both.count(query) == whole.num_rows


def test_a_query_that_needs_more_than_it_may_use_says_which_options_help(both, tmp_path):
    _, now = write_both(tmp_path)
    rows = Query("large", "", "", "select range % 7 as a, list(range) as b from range(4_000_000) group by a")
    with (
        open_snapshots(str(now), resources=QueryResources(memory=16 << 20, spill=tmp_path)) as snapshots,
        pytest.raises(QueryTooLarge, match=r"large needs more memory or disk .*--memory and --spill"),
    ):
        snapshots.ask(rows)


def test_a_query_that_duckdb_calls_interrupted_ends_as_by_ctrl_c(both, monkeypatch):
    class InterruptedConnection:
        def sql(self, _):
            raise RuntimeError("Query interrupted")  # what DuckDB makes of a KeyboardInterrupt while it computes

    monkeypatch.setattr(both, "_connection", InterruptedConnection())
    with pytest.raises(KeyboardInterrupt):
        both.ask(QUERIES["backlog"])


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"PAR1")])
def test_a_file_that_is_gone_or_damaged_is_an_error_that_says_what_to_do(tmp_path, damage):
    path = write_snapshot(tmp_path, "now", NOW, topics=[{"topic": TOPIC, "cursors": 0}])
    damage(next((tmp_path / "topics" / "snapshot=now").iterdir()))
    with pytest.raises(DestinationNotReadable, match="mledger snapshot verify"), open_snapshots(str(path)) as snapshots:
        snapshots.ask(QUERIES["topics_without_subscriptions"])


def test_a_column_that_an_older_version_did_not_have_is_unknown(tmp_path):
    path = write_snapshot(tmp_path, "now", NOW, cursors=[cursor(TOPIC, "sub", 1, 4) | {"holes": 2}])
    (file,) = (tmp_path / "cursors" / "snapshot=now").iterdir()
    pq.write_table(pq.ParquetFile(file).read().drop_columns(["partial_batches"]), file)
    manifest = path / "manifest.json"
    document = json.loads(manifest.read_text())
    document["tables"]["cursors"]["schema"] = "of another version"
    manifest.write_text(json.dumps(document))
    with open_snapshots(str(path)) as snapshots:
        (row,) = snapshots.ask(QUERIES["most_holes"]).to_pylist()
    assert (row["holes"], row["partial_batches"]) == (2, None)


def test_a_retention_of_all_that_a_number_can_say_keeps_all(tmp_path):
    """Some write the largest number instead of -1."""
    topic = {"topic": TOPIC, "managed_ledger": "t/n/persistent/orders", "namespace": "t/n"}
    most = (1 << 63) - 1
    path = write_snapshot(
        tmp_path,
        "now",
        NOW,
        topics=[topic | {"cursors": 0, "last_ledger_id": 2}],
        topic_ledgers=[
            topic | {"ledger_id": 1, "entries": 5, "size": 50, "closed": NOW - HOUR},
            topic | {"ledger_id": 2, "entries": 0, "size": 0},
        ],
        namespaces=[{"namespace": "t/n", "retention_minutes": most, "retention_mb": most}],
    )
    with open_snapshots(str(path)) as snapshots:
        assert snapshots.ask(QUERIES["trim_gains"]).num_rows == 0


@pytest.mark.parametrize("name", sorted(COMPACTED_SYSTEM_TOPICS))
@pytest.mark.parametrize("partition", [None, 0])
@pytest.mark.parametrize(("cursors", "gains"), [((), []), ((COMPACTION,), [50])])
def test_pulsars_own_topics_are_not_trimmed_before_they_are_compacted(tmp_path, name, partition, cursors, gains):
    """As `why_never_trimmed` says of the commands that trim."""
    base = f"persistent://t/n/{name}"
    own = base if partition is None else f"{base}-partition-{partition}"
    partitioned = {} if partition is None else {"partitioned_topic": base, "partition": partition}
    path = write_snapshot(
        tmp_path,
        "now",
        NOW,
        topics=[topic(own, 1, 2, 5, 50, cursors=len(cursors), ledgers=2, created=NOW) | partitioned],
        topic_ledgers=[listed(own, 1, 5, 50, NOW - HOUR), listed(own, 2, 0, 0)],
        cursors=[cursor(own, each, 1, 4) for each in cursors],
    )
    with open_snapshots(str(path)) as snapshots:
        assert [row["bytes"] for row in snapshots.ask(QUERIES["trim_gains"]).to_pylist()] == gains


GAINS = ("held_bytes", "trim_gains", "topics_without_subscriptions", "retention_without_effect")
"""What is asked before something is deleted."""


@pytest.fixture
def asked(tmp_path_factory):
    """Answers queries about one topic: ledger 1 with 5 entries, 50 B, in two copies, and the open ledger 2."""

    def ask(*names, cursors=(), number=None, properties=(), errors=(), of=KEPT, more=()):
        count = len(cursors) if number is None else number
        described = topic(of, 1, 2, 5, 50, cursors=count, ledgers=2, created=NOW - 9 * HOUR)
        path = write_snapshot(
            tmp_path_factory.mktemp("asked"),
            "now",
            NOW,
            topics=[described | {"properties": list(properties)} | dict(more)],
            topic_ledgers=[listed(of, 1, 5, 50, NOW - HOUR), listed(of, 2, 0, 0)],
            cursors=list(cursors),
            ledgers=[ledger(1, 9, 4, 50), ledger(2, 1, None, None)],
            errors=list(errors),
        )
        with open_snapshots(str(path)) as snapshots:
            return [answer(snapshots, name) for name in names]

    return ask


def test_a_subscription_whose_record_has_no_position_may_need_all_entries(asked):
    """Records of old brokers may name a cursor ledger only: until that is read, nothing counts as consumed."""
    old = cursor(KEPT, "old", None, None, state="snapshot", cursor_ledger_id=7)
    (backlog,), held, *others = asked("backlog", *GAINS, cursors=[old])
    assert backlog[2:4] == (5, 50)
    assert held == [(KEPT, "old", None, 1, 50, 100)]
    assert others == [[], [], []]


def test_a_subscription_whose_record_cannot_be_read_holds_all_ledgers(asked):
    done = cursor(KEPT, "done", 1, 4)
    broken = {"path": "/managed-ledgers/t/n/kept/bad%2Fone", "kind": "cursor", "topic": KEPT}
    held, *others = asked(*GAINS, cursors=[done], number=2, errors=[broken])
    assert held == [(KEPT, "bad%2Fone", "done", 1, 50, 100)]
    assert others == [[], [], []]
    assert asked("trim_gains", cursors=[done]) == [[(KEPT, 1, 50, 100, None, None)]]


def test_nothing_is_trimmed_by_the_policies_of_a_namespace_that_cannot_be_read(asked):
    broken = {"path": "/admin/policies/t/n", "kind": "namespace"}
    assert asked("trim_gains", cursors=[cursor(KEPT, "done", 1, 4)], errors=[broken]) == [[]]


@pytest.mark.parametrize("cursors", [(), (cursor(KEPT, "slow", 1, -1),), (cursor(KEPT, "done", 1, 4),)])
def test_nothing_is_to_be_gained_from_a_shadow_whose_ledgers_are_its_sources(asked, cursors):
    assert asked(*GAINS, cursors=cursors, properties=[(SHADOW_SOURCE, TOPIC)]) == [[], [], [], []]


@pytest.mark.parametrize(
    ("name", "more"),
    [
        (f"persistent://t/n/{CHANGE_EVENTS}", {}),
        (
            f"persistent://t/n/{CHANGE_EVENTS}-partition-0",
            {"partitioned_topic": f"persistent://t/n/{CHANGE_EVENTS}", "partition": 0},
        ),
        ("persistent://pulsar/system/transaction_coordinator_assign", {"namespace": "pulsar/system"}),
    ],
)
def test_pulsars_own_topics_have_no_need_of_a_subscription(asked, name, more):
    assert asked("topics_without_subscriptions", of=name, more=more) == [[]]


@pytest.mark.parametrize("name", [*QUERIES, *REPORT_QUERIES])
def test_numbers_of_damaged_records_leave_the_rest_of_an_answer(tmp_path, name):
    """Two topics with ledgers, cursors and ensembles whose numbers are so large that their sums are in no column."""
    most, rows = 1 << 62, {}
    numbers = (1, most, 3), (2, 0, 3), (3, most, (1 << 31) - 1)
    for time, extra in (("before", 0), ("now", 1)):
        names = [f"persistent://t/n/damaged-{number}" for number in range(2)]
        rows = {
            "topics": [topic(TOPIC, 9, 9, 1, 1, cursors=0, ledgers=1, created=NOW)]
            + [topic(each, 1, 3, most, most, cursors=1, ledgers=3, created=NOW) for each in names],
            "topic_ledgers": [listed(TOPIC, 9, 1, 1, NOW)]
            + [listed(each, at, most + extra, most, NOW - HOUR) for each in names for at in (1, 2, 3)],
            "cursors": [cursor(each, "s", 1, -1, holes=2) for each in names]
            + [cursor(names[0], "latest", 3, (1 << 63) - 1)]
            + [cursor(each, "read", 1, -1, state="recovered", backlog=most) for each in names],
            "cursor_holes": [hole("s", (1, at), (2, most)) | {"managed_ledger": "t/n/damaged-0"} for at in (1, 2)],
            "ledgers": [ledger(at, 5, last, most, quorum=quorum) for at, last, quorum in numbers],
            "ensembles": [member(at, "b1", most) for at, _, _ in numbers],
        }
        write_snapshot(tmp_path, time, NOW - HOUR + extra * HOUR, **rows)
    with open_snapshots(str(tmp_path / "snapshot=now"), str(tmp_path / "snapshot=before")) as snapshots:
        found = snapshots.ask((QUERIES | REPORT_QUERIES)[name]).to_pylist()
    if name in ("topics_without_subscriptions", "namespace_topics"):
        assert TOPIC in [row["topic"] for row in found]


def test_what_was_spilled_is_removed(tmp_path):
    _, now = write_both(tmp_path / "snapshots")
    spill = tmp_path / "spill"
    spill.mkdir()
    rows = Query("sorted", "", "", "select hash(range) as a, repeat('x', 50) as b from range(300_000) order by a")
    with open_snapshots(str(now), resources=QueryResources(memory=24 << 20, spill=spill)) as snapshots:
        assert snapshots.count(rows) == 300_000
        assert len(list(spill.iterdir())) == 1
    assert list(spill.iterdir()) == []


def test_a_view_that_is_kept_gives_the_same_rows(both, tmp_path):
    before, now = write_both(tmp_path)
    with open_snapshots(str(now), str(before)) as snapshots:
        snapshots.keep_views("cursor_backlog", "topic_figures")
        assert answer(snapshots, "backlog") == answer(both, "backlog")
        assert answer(snapshots, "stuck_cursors") == answer(both, "stuck_cursors")


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_and_its_columns_are_documented(both, name):
    (row,) = [line for line in DOCUMENT.splitlines() if line.startswith(f"| `{name}` |")]
    assert QUERIES[name].title
    assert QUERIES[name].doc
    missing = [column for column in both.ask(QUERIES[name]).column_names if f"`{column}`" not in row]
    assert missing == []
