"""Commands that stand for the originals' admin tools, where they must refuse, leave alone, or be undone; ours only."""

import asyncio
import itertools
from dataclasses import replace

import pytest

import mledger as public
from mledger.admin.undo.undo_file import Outcome
from mledger.cli.shared import undo_files
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.command_kills import killed_commands
from tests.support.topics import KEEP, fill, managed_ledger_of
from tests.support.tree import tree

ELSEWHERE, OTHER = "10.0.0.1:3181", "10.0.0.2:3181"
ONE = replace(KEEP, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)
ONE_BOOKIE = ("--ensemble-size", 1, "--write-quorum", 1, "--ack-quorum", 1)
STEPS_AT_MOST = 40


@pytest.fixture
def undo_file(tmp_path):
    """Where the undo file goes."""
    return tmp_path / "undo.json"


async def _write(url, topic, config=KEEP):
    async with public.open_cluster(url, config=config) as cluster:
        opened = await cluster.create_topic(topic)
        cursor = await opened.open_cursor("one", cursor_properties={"kept": "yes"})
        positions = await fill(opened, 25)
        await cursor.acknowledge([positions[3], positions[12]])
        await opened.abandon()


@pytest.fixture
def written(url, topic):
    """A topic of three ledgers with one cursor, whose owner is gone: its ledgers."""
    run(_write(url, topic))
    return [each["ledger_id"] for each in answer("topics", "describe", topic, url=url)["ledgers"]]


def state(url, topic):
    """What the users of the cursor see."""
    found = answer("cursors", "describe", topic, "one", url=url)
    return found["mark_delete"], found["backlog"], found["hole_ranges"], found["cursor_properties"]


def test_the_plan_of_dropping_ledgers_shows_who_stands_in_them_and_changes_nothing(url, topic, written) -> None:
    before = tree(url)
    plan = answer("topics", "drop-ledgers", topic, written[0], 99999, "--dry-run", url=url)
    assert tree(url) == before
    assert plan["not_listed"] == [99999]
    assert [(each["ledger_id"], each["cursors"]) for each in plan["ledgers"]] == [(written[0], ["one"])]


def test_dropped_ledgers_are_listed_again_by_undoing(url, topic, written, undo_file) -> None:
    path = f"/managed-ledgers/{managed_ledger_of(topic)}"
    before = tree(url)[path]
    done = answer("topics", "drop-ledgers", topic, *written[:2], "--yes", "--undo-file", undo_file, url=url)
    assert done["ledgers_left"] == 1
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_suffix(".redo"), url=url)
    version, data = before
    assert tree(url)[path] == (version + 2, data)


def test_ledgers_of_a_topic_with_a_live_owner_are_not_dropped(url, topic, undo_file) -> None:
    async def main():
        async with public.open_cluster(url) as cluster:
            owned = await cluster.create_topic(topic)
            ledger = owned.ledgers[0].ledger_id
            drop = ("topics", "drop-ledgers", topic, ledger, "--yes", "--undo-file", undo_file)
            refused = await asyncio.to_thread(mledger, *drop, url=url)
            await owned.add(b"still the owner")
            await owned.abandon()
            return refused

    refused = run(main())
    assert (refused.code, undo_file.exists()) == (4, False)


def test_ledgers_of_a_partitioned_topic_are_dropped_by_partition(url, topic) -> None:
    ok("topics", "create", topic, "--partitions", 2, url=url)
    refused = mledger("topics", "drop-ledgers", topic, 1, "--dry-run", url=url)
    assert refused.code == 2
    assert f"{topic}-partition-0" in refused.err


def test_a_deleted_cursor_comes_back_where_it_stood(url, topic, written, undo_file) -> None:
    before = state(url, topic)
    ok("cursors", "delete", topic, "one", "--yes", "--undo-file", undo_file, url=url)
    assert answer("cursors", "list", topic, url=url) == []
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_suffix(".redo"), url=url)
    assert state(url, topic) == before


def test_deleting_a_cursor_killed_at_any_step_is_undone_or_has_changed_nothing(url, topic, tmp_path) -> None:
    with killed_commands() as commands:
        for number in itertools.count(1):
            assert number < STEPS_AT_MOST
            name, file = f"{topic}-k{number}", tmp_path / f"{number}.json"
            run(_write(url, name, ONE))
            before = state(url, name)
            ended = commands.run(
                number, "--metadata", url, "cursors", "delete", name, "one", "--yes", "--undo-file", file,
                "--take-over", *ONE_BOOKIE,
            )  # fmt: skip
            if file.exists():
                how = ["--incomplete"] if undo_files.load(file).outcome is Outcome.BEGUN else []
                redo = tmp_path / f"{number}.redo"
                ok("undo", file, "--yes", "--undo-file", redo, *how, "--take-over", *ONE_BOOKIE, url=url)
            assert state(url, name) == before, ended
            if not ended.killed_at:
                return


def test_a_file_that_is_no_cookie_is_refused_before_anything_is_written(url, tmp_path) -> None:
    file = tmp_path / "VERSION"
    file.write_text("not a cookie")
    before = tree(url)
    done = mledger("bookies", "cookie", "write", ELSEWHERE, "--file", file, "--yes", url=url)
    assert (done.code, tree(url)) == (1, before)
    assert str(file) in done.err


def test_a_cookie_of_another_bookie_is_refused(url, tmp_path) -> None:
    known = answer("bookies", "list", url=url)[0]["bookie_id"]
    file = tmp_path / "VERSION"
    file.write_text(ok("bookies", "cookie", "show", known, "--raw", url=url).out)
    done = mledger("bookies", "cookie", "write", ELSEWHERE, "--file", file, "--yes", url=url)
    assert done.code == 2
    assert known in done.err


def test_deleting_the_cookie_of_a_bookie_that_ledgers_name_warns(url, topic, written) -> None:
    named = answer("ledgers", "list", url=url)[-1]["ledger_id"]
    bookie = answer("ledgers", "describe", named, url=url)["ensembles"][0]["bookies"][0]
    ledgers = len(answer("ledgers", "list", "--bookie", bookie, url=url))
    planned = answer("bookies", "cookie", "delete", bookie, "--force", "--dry-run", url=url)
    assert planned["warnings"][1].startswith(f"ledgers that name it: {ledgers};")


def test_a_cookie_made_here_is_of_this_cluster_and_goes_by_undoing(url, undo_file) -> None:
    made = ("--journal-dir", "/journal", "--ledger-dir", "/a", "--ledger-dir", "/b")
    ok("bookies", "cookie", "write", ELSEWHERE, *made, "--yes", "--undo-file", undo_file, url=url)
    shown = answer("bookies", "cookie", "show", ELSEWHERE, url=url)
    cluster = answer("bookies", "cluster", url=url)
    assert (shown["ledger_dirs"], shown["instance_id"]) == (["/a", "/b"], cluster["instance_id"])
    assert cluster["away"] == [ELSEWHERE]
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_suffix(".redo"), url=url)
    assert mledger("bookies", "cookie", "show", ELSEWHERE, url=url).code == 3


def test_what_auto_recovery_is_told_already_is_nothing_to_do(url) -> None:
    plan = answer("bookies", "autorecovery", "--enable", "--yes", url=url)
    assert (plan["enabled_after"], plan["undo_file"]) == (True, None)


def test_switch_and_delay_of_auto_recovery_are_undone_together(url, undo_file) -> None:
    both = ("bookies", "autorecovery", "--disable", "--lost-bookie-delay", 30)
    done = answer(*both, "--yes", "--undo-file", undo_file, url=url)
    assert (done["enabled"], done["lost_bookie_delay"]) == (False, 30)
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_suffix(".redo"), url=url)
    cluster = answer("bookies", "cluster", url=url)
    assert (cluster["autorecovery_enabled"], cluster["lost_bookie_delay"]) == (True, None)


def test_a_bookie_that_serves_is_not_replaced_and_ledgers_not_closed_are_left(url, topic, written) -> None:
    bookie = answer("ledgers", "describe", written[2], url=url)["ensembles"][0]["bookies"][0]
    assert mledger("ledgers", "replace-bookie", bookie, OTHER, "--dry-run", url=url).code == 4
    assert mledger("ledgers", "replace-bookie", OTHER, ELSEWHERE, "--dry-run", url=url).code == 3
    plan = answer("ledgers", "replace-bookie", bookie, OTHER, "--force", "--limit", 1, "--dry-run", url=url)
    left = {each["ledger_id"]: each["reason"] for each in plan["left"]}
    assert left[written[2]] == "it is OPEN"
    assert plan["ledgers_to_change"] == 1


def test_a_bookie_is_replaced_in_ledgers_that_fit_no_request_together(url, undo_file) -> None:
    source = "gone:1"
    closed = LedgerMetadata(
        1,
        1,
        1,
        (Segment(0, (source,)),),
        state=LedgerState.CLOSED,
        last_entry=9,
        length=9,
        custom_metadata=(("large", b"x" * 100_000),),
    )
    ledgers = range(1_000, 1_012)

    async def make():
        async with await open_store(url) as store:
            for ledger in ledgers:
                await LedgerStore(store).create(ledger, closed)

    run(make())
    replacing = ("ledgers", "replace-bookie", source, OTHER, "--force", "--yes", "--undo-file", undo_file)
    assert answer(*replacing, url=url)["changed"] == [*ledgers]
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_suffix(".redo"), url=url)
    assert answer("ledgers", "describe", ledgers[0], url=url)["ensembles"][0]["bookies"] == [source]


def test_entries_of_a_data_ledger_that_are_no_messages_are_shown_as_they_are(url, topic, written) -> None:
    decoded = mledger("ledgers", "read", written[0], "--decode", url=url)
    assert decoded.code == 0
    assert decoded.out == mledger("ledgers", "read", written[0], url=url).out


def test_internal_stats_show_a_lost_cursor_ledger_as_unknown(url, topic, written) -> None:
    ledger = answer("cursors", "describe", topic, "one", url=url)["cursor_ledger"]
    path = next(each for each in tree(url) if each.startswith("/ledgers/") and each.endswith(f"L{ledger % 10**4:04d}"))

    async def lose():
        async with await open_store(url) as store:
            await store.delete(path)

    run(lose())
    found = answer("topics", "stats-internal", topic, url=url)["cursors"]["one"]
    assert (found["cursorLedger"], found["cursorLedgerLastEntry"]) == (ledger, None)
    assert found["markDeletePosition"] is not None
