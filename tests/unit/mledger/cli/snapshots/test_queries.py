"""`mledger snapshot diff` and `ask`: their JSON is stable, and a table says what it leaves out."""

import pytest

from mledger.snapshot.sql.queries import CHANGES, QUERIES
from tests.support.cli import answer, mledger, ok
from tests.support.snapshots.snapshot_pairs import TOPIC, write_both


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    return write_both(tmp_path_factory.mktemp("commanded"))


def test_diff_reports_every_kind_of_change(both):
    before, now = both
    found = answer("snapshot", "diff", before, now)
    assert list(found) == ["a", "a_time", "b", "b_time", *CHANGES]
    assert (found["a"], found["a_time"], found["b"]) == ("before", "2026-01-02T11:00:00.000Z", "now")
    assert found["cursors_back"] == [
        {
            "topic": TOPIC,
            "cursor": "back",
            "ledger_before": 2,
            "entry_before": 19,
            "ledger_id": 2,
            "entry_id": 7,
            "told_by": "znode",
        }
    ]
    assert found["cursors_vanished"] == []


def test_nothing_changed_between_a_snapshot_and_itself(both):
    found = answer("snapshot", "diff", both[1], both[1])
    assert [name for name in CHANGES if found[name]] == []


def test_a_table_says_what_it_leaves_out(both):
    before, now = both
    shown = ok("snapshot", "diff", before, now, "--limit", 1).out
    assert (
        "only the first 1 rows are shown of topics_appeared, cursors_moved, ledgers_appeared, bookies_changed" in shown
    )


def test_ask_runs_one_query_and_shows_its_columns(both):
    (found,) = answer("snapshot", "ask", both[1], "held_bytes")
    assert found == {
        "topic": TOPIC,
        "cursor": "slow",
        "next_cursor": "quick",
        "ledgers": 2,
        "bytes": 5000,
        "disk_bytes": 11000,
    }
    assert len(answer("snapshot", "ask", both[1], "backlog", "--limit", 2)) == 2


def test_ask_without_a_query_lists_all(both):
    found = answer("snapshot", "ask", both[1])
    assert [each["query"] for each in found] == list(QUERIES)
    assert [each["query"] for each in found if each["compares"]] == ["stuck_cursors"]


def test_the_list_of_queries_keeps_the_former_names_of_its_json_fields(both):
    found = answer("snapshot", "ask", both[1])
    assert [(each["question"], each["asks"]) for each in found] == [(each["query"], each["title"]) for each in found]


def test_ask_prints_the_sql(both):
    assert ok("snapshot", "ask", both[1], "backlog", "--sql").out.strip() == QUERIES["backlog"].sql.strip()


def test_a_query_that_compares_needs_the_older_snapshot(both):
    done = mledger("snapshot", "ask", both[1], "stuck_cursors")
    assert (done.code, "--before" in done.err) == (2, True)
    assert len(answer("snapshot", "ask", both[1], "stuck_cursors", "--before", both[0])) == 1


def test_queries_take_their_memory_and_their_directory_from_options(both, tmp_path):
    options = ("--memory", 64, "--spill", tmp_path)
    assert len(answer("snapshot", "ask", both[1], "backlog", *options)) == 5
    assert answer("snapshot", "diff", both[1], both[1], *options)["a"] == "now"


def test_a_directory_to_spill_to_must_be_there(both, tmp_path):
    done = mledger("snapshot", "ask", both[1], "backlog", "--spill", tmp_path / "none")
    assert (done.code, "--spill" in done.err) == (2, True)
