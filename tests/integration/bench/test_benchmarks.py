"""The benchmarks run, verify what they wrote, and print the tables of `benchmarks.md`. No figure is judged."""

import json
import subprocess
import sys

import pytest

from bench import ceiling
from bench.rig.cluster import ROOT
from tests.clients.builds import missing_tools
from tests.support.aio import HANG_S

KEYS = {"bench", "case", "value", "unit", "peer", "peer_value", "ratio"}


def run_bench(script, *options, timeout=100):
    command = [sys.executable, str(ROOT / "bench" / script), "--pairs", "1", *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG_S)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_ceiling_measures_a_replicated_append():
    figures = ceiling.measure(size=100, window=100, seconds=0.2)
    assert figures.entries_per_s > 0
    assert 0 < figures.p50_ms <= figures.p99_ms


@pytest.mark.parametrize("case", ["flights rows", "1 KiB, window 1"])
def test_append_reads_back_every_entry_and_compares_itself_with_the_ceiling(case):
    results = run_bench("append.py", "--seconds", 0.3, "--case", case)
    assert all(result.keys() >= KEYS for result in results)
    assert {result["peer"] for result in results} == {"ceiling", "limit", None}
    (verified,) = (result for result in results if "verified" in result["case"])
    assert verified["entries"] > 0


def test_read_gives_the_topic_to_a_process_without_a_cache():
    results = run_bench("read.py", "--seconds", 0.1)
    assert [result["unit"] for result in results] == ["entries/s", "µs/entry", "MiB", "MiB"]
    assert results[0]["peer"] == "append ceiling"


def test_recover_checks_every_cursor_of_a_killed_owner():
    results = run_bench("recover.py", "--cursors", 5, "--holes", 3, "--no-peer")
    assert [result["case"] for result in results] == [
        "5 cursors with 3 holes: first append",
        "5 cursors with 3 holes: all cursors recovered",
    ]
    assert all(result["peer"] is None and result["ratio"] is None for result in results)


def test_topics_are_opened_after_a_clean_close_and_after_a_kill_and_written_at_once():
    options = ("--topics", 30, "--cursors", 2, "--bare", 10, "--ledgers", 20, "--seconds", 0.2)
    results = run_bench("topics.py", *options)
    assert [result["case"] for result in results if result["peer"]] == [
        "30 topics, 60 cursors: opened after a clean close",
        "30 topics, 60 cursors: opened after kill -9",
        "1 KiB, 20 ledgers at once, batches of 1",
        "1 KiB, 20 ledgers at once, batches of 4",
    ]
    (tasks,) = (result["value"] for result in results if result["unit"] == "tasks")
    assert tasks < 10, "a session and each of two namespaces are watched; topics and cursors have no task"


@pytest.mark.clients
def test_brokers_compares_ours_with_the_minimal_one_under_the_same_load():
    if missing := missing_tools("go"):
        pytest.skip(f"the load needs {', '.join(missing)}")
    options = ("--seconds", 0.3, "--bookies", 1, "--no-java", "--case", "drain 1 KiB, shared")
    results = run_bench("brokers.py", *options)
    assert [result["peer"] for result in results] == ["minimal broker", "the client alone on all processors"]
    assert {result["case"] for result in results} == {"drain 1 KiB, shared, 1 bookie"}
    assert all(result["value"] > 0 for result in results)


@pytest.mark.clients
def test_standalones_starts_ours_and_runs_small_tests_and_the_load():
    if missing := missing_tools("go"):
        pytest.skip(f"the load needs {', '.join(missing)}")
    results = run_bench("standalones.py", "--seconds", 0.3, "--tests", 2, "--no-java")
    found = {result["case"]: result["value"] for result in results if result["peer"] in (None, "pulsar-lite")}
    assert found.keys() >= {
        f"{case}{which}"
        for case in ("start until ready", "100 small tests", "synchronous send of 1 KiB: median")
        for which in ("", ", synced")
    }
    assert all(value > 0 for value in found.values())


def test_takeover_ends_with_the_first_message_of_each_topic():
    results = run_bench("takeover.py", "--topics", 20, "--bookies", 1)
    assert [result["unit"] for result in results] == ["s", "ms/topic", "MiB"]
    assert results[0]["case"] == "20 topics of a killed broker, 1 bookie: first messages"
    assert results[0]["peer"] == "limit"


def test_crowd_gives_every_topic_as_many_messages_and_loses_no_client():
    sizes = ("--topics", 40, "--connections", 8, "--rate", 200)
    results = run_bench("crowd.py", *sizes, "--seconds", 0.6, "--idle", 0.2)
    assert all(result.keys() >= KEYS for result in results)
    by_case = {result["case"]: result for result in results}
    assert by_case["connections, producers and consumers lost"]["value"] == 0
    fewest = by_case["fewest messages of a topic"]
    assert fewest["value"] >= fewest["peer_value"] - 1 > 0
    assert {result["peer"] for result in results} == {
        *("limit", "alone", "most", None),
        "the same flood of another broker",
    }


def test_start_compares_commands_with_bare_python_and_with_click():
    results = run_bench("start.py")
    assert all(result.keys() >= KEYS for result in results)
    assert [result["case"] for result in results if result["peer"] == "import click"] == [
        "mledger --help, processor time",
        "mledger topics list, processor time",
        "mledger topics stats-internal, processor time",
        "mledger cursors list, processor time",
    ]
    assert {result["peer"] for result in results} == {"import click", "python -c pass"}


@pytest.mark.timeout(300)
def test_snapshots_of_a_synthetic_cluster_are_exported_from_files_and_from_a_server():
    sizes = ("--topics", 60, "--cursors", 180, "--ledgers", 300)
    results = run_bench("snapshot.py", *sizes, "--no-spark", "--seconds", 0.3, timeout=280)
    assert all(result.keys() >= KEYS for result in results)
    cases = [result["case"] for result in results if result["unit"] in ("znodes/s", "writes/s")]
    assert cases == [
        "running ZooKeeper to Parquet",
        "running ZooKeeper to Parquet, the best",
        "a writer beside a reading of 2,000 znodes/s",
    ]
    assert results[0]["case"].endswith("znodes in files to Parquet")


def test_a_snapshot_is_continued_and_exported_fully_by_turns():
    sizes = ("--topics", 200, "--cursors", 600, "--ledgers", 1000)
    results = run_bench("since.py", *sizes, "--pairs", 1)
    nights = ("first night", "second night", "first night at random places")
    assert [result["case"].partition(",")[0] for result in results] == [night for night in nights for _ in range(2)]
    assert all(result["peer"] == "a full export" and result["value"] > 0 for result in results)


def test_the_exporter_reads_a_synthetic_cluster():
    sizes = ("--topics", 60, "--cursors", 60, "--ledgers", 150)
    results = run_bench("exporter.py", "--seconds", 0.3, "--interval", 1, *sizes)
    assert all(result.keys() >= KEYS for result in results)
    of_rounds = ["s", "znodes", "s", "ms"]
    assert [result["unit"] for result in results] == [*of_rounds, *of_rounds, "MiB", "KiB", *["writes/s"] * 3]
    assert results[0]["case"] == "60 topics, 60 cursors, the first time: a round"
    assert results[5]["value"] < results[1]["value"] / 2  # requests
    assert results[0]["peer"] == "limit"
