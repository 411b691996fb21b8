"""What a changing command finds when it looks again after its question: owners, cursors, entries, references."""

import asyncio
import os
import subprocess
import sys

import pytest

import mledger as public
from mledger.admin.undo.undo_file import Outcome
from mledger.cli.shared.changes import undo_files
from mledger.ledgers.ownership import owner_path
from mledger.metastore.records.paths import cookie_path, deletion_path
from mledger.metastore.url import open_store
from tests.support.aio import HANG_S, run
from tests.support.cli import ROOT, answer, mledger, mledger_process, ok
from tests.support.commands.meanwhile import meanwhile
from tests.support.metadata.tree import tree
from tests.support.ports import environment_of_commands
from tests.support.topics import KEEP, fill, managed_ledger_of


def beside_ephemeral(monkeypatch, url: str, step: str, path: str, data: bytes, *arguments: object):
    """Run the command; at `step` another program registers by an ephemeral node."""

    async def main():
        loop = asyncio.get_running_loop()
        async with await open_store(url) as store:

            async def register():
                await store.create(path, data, ephemeral=True, parents=True)

            meanwhile(monkeypatch, step, lambda: asyncio.run_coroutine_threadsafe(register(), loop).result())
            return await asyncio.to_thread(mledger, *arguments, url=url)

    return run(main())


def test_a_topic_that_got_an_owner_since_the_plan_is_left_alone(url, topic, undo_file, monkeypatch):
    ok("topics", "create", topic, url=url)
    before = tree(url)
    path = owner_path(managed_ledger_of(topic))
    arguments = ("topics", "set-properties", topic, "a=b", "--yes", "--undo-file", undo_file)
    done = beside_ephemeral(monkeypatch, url, "look again", path, b"{}", *arguments)
    assert (done.code, undo_file.exists()) == (4, False)
    assert "got an owner since the plan was made" in done.err
    assert tree(url) == before


def test_entries_that_came_since_the_plan_are_not_acknowledged(url, topic, written, undo_file, monkeypatch):
    async def publish():
        async with public.open_cluster(url, config=KEEP) as cluster:
            await fill(await cluster.open_topic(topic), 5)

    run(publish())  # the cursor's record is then that of a clean close, and stays as it is
    backlog = answer("cursors", "clear", topic, "one", "--dry-run", url=url)["backlog_before"]
    meanwhile(monkeypatch, "look again", lambda: run(publish()))
    done = mledger("cursors", "clear", topic, "one", "--yes", "--undo-file", undo_file, url=url)
    assert (done.code, undo_file.exists()) == (4, False)
    assert answer("cursors", "clear", topic, "one", "--dry-run", url=url)["backlog_before"] == backlog + 5


def test_a_ledger_that_is_listed_again_since_the_plan_is_not_deleted(url, topic, written, undo_file, monkeypatch):
    ledger = written[0]
    ok("topics", "drop-ledgers", topic, ledger, "--yes", "--undo-file", undo_file, url=url)
    undoing = ("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"))
    meanwhile(monkeypatch, "act", lambda: mledger_process(*undoing, url=url))
    file = undo_file.with_name("deletion.json")
    done = mledger("ledgers", "delete", ledger, "--force", "--yes", "--undo-file", file, url=url)
    assert (done.code, file.exists()) == (4, False)
    assert "names it as data ledger" in done.err
    assert ledger in [each["ledger_id"] for each in answer("topics", "describe", topic, url=url)["ledgers"]]
    assert answer("ledgers", "describe", ledger, url=url)["state"] == "CLOSED"


def test_a_topic_that_got_a_partition_since_the_plan_is_not_deleted(url, topic, undo_file, monkeypatch):
    ok("topics", "create", topic, "--partitions", 2, url=url)
    lost = undo_file.with_name("lost.json")
    ok("topics", "delete", f"{topic}-partition-1", "--yes", "--undo-file", lost, url=url)
    before = tree(url)
    meanwhile(monkeypatch, "act", lambda: mledger_process("topics", "create", topic, "--missing", url=url))
    done = mledger("topics", "delete", topic, "--yes", "--undo-file", undo_file, url=url)
    assert done.code == 4
    assert "-partition-1 was created since the plan was made" in done.err
    assert tree(url).items() >= before.items()


def test_the_cookie_of_a_bookie_that_started_since_the_plan_is_kept(url, undo_file, monkeypatch):
    made = ("--journal-dir", "/journal", "--ledger-dir", "/a", "--yes", "--undo-file", undo_file)
    bookie = "10.0.0.7:3181"
    ok("bookies", "cookie", "write", bookie, *made, url=url)
    file = undo_file.with_name("deletion.json")
    arguments = ("bookies", "cookie", "delete", bookie, "--yes", "--undo-file", file)
    done = beside_ephemeral(monkeypatch, url, "act", f"/ledgers/available/{bookie}", b"", *arguments)
    assert (done.code, file.exists()) == (4, False)
    assert "is registered; stop it first" in done.err
    assert cookie_path(bookie) in tree(url)
    ok("bookies", "cookie", "delete", bookie, "--yes", "--undo-file", file, url=url)


def test_a_change_whose_result_nobody_reads_is_said_to_be_made(url, topic, undo_file):
    ok("topics", "create", topic, url=url)
    reading, writing = os.pipe()
    os.close(reading)
    arguments = ["topics", "set-properties", topic, "a=b", "--yes", "--undo-file", str(undo_file), "-o", "json"]
    environment = environment_of_commands() | {"PYTHONPATH": str(ROOT), "MLEDGER_METADATA": url}
    command = [sys.executable, "-m", "mledger.cli.main", *arguments]
    done = subprocess.run(command, env=environment, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=HANG_S)
    os.close(writing)
    assert done.returncode == 1
    assert f"the change was made, {undo_file} can undo it, and nobody reads the output" in done.stderr
    assert answer("topics", "describe", topic, url=url)["properties"] == {"a": "b"}


def undo_files_of(undo_file):
    """The options of a command that only makes way for another, and those of the other."""
    return ("--yes", "--undo-file", undo_file.with_name("meanwhile.json")), ("--yes", "--undo-file", undo_file)


@pytest.mark.parametrize(
    "change", [("skip", 2), ("set-properties", "team=blue"), ("delete",)], ids=lambda each: each[0]
)
def test_a_cursor_that_another_command_moves_as_this_one_acts_is_left_there(
    url, topic, written, undo_file, monkeypatch, change
):
    first, second = undo_files_of(undo_file)
    resetting = ("cursors", "reset", topic, "one", "--to", "earliest", *first)
    meanwhile(monkeypatch, "act", lambda: mledger_process(*resetting, url=url))
    done = mledger("cursors", change[0], topic, "one", *change[1:], *second, url=url)
    assert (done.code, undo_file.exists()) == (4, False)
    assert "was opened by another owner since the plan was made" in done.err
    found = answer("cursors", "describe", topic, "one", url=url)
    assert (found["backlog"], found["cursor_properties"]) == (25, {"kept": "yes"})


def test_the_undo_of_a_change_of_some_partitions_leaves_what_others_did_to_the_next(url, topic, undo_file, monkeypatch):
    ok("topics", "create", topic, "--partitions", 2, url=url)
    first, second = undo_files_of(undo_file)
    naming = ("topics", "set-properties", f"{topic}-partition-1", "a=b", *first)
    meanwhile(monkeypatch, "act", lambda: mledger_process(*naming, url=url))
    done = mledger("topics", "terminate", topic, *second, url=url)
    assert done.code == 4
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    partitions = [answer("topics", "describe", f"{topic}-partition-{number}", url=url) for number in range(2)]
    assert [each["terminated"] for each in partitions] == [None, None]
    assert [each["properties"] for each in partitions] == [{}, {"a": "b"}]


def test_a_record_that_another_command_writes_as_this_one_acts_is_not_undone(url, topic, undo_file, monkeypatch):
    ok("topics", "create", topic, url=url)
    first, second = undo_files_of(undo_file)
    setting = ("topics", "set-properties", topic, "a=b")
    meanwhile(monkeypatch, "act", lambda: mledger_process(*setting, *first, url=url))
    done = mledger("topics", "set-properties", topic, "a=c", *second, url=url)
    assert (done.code, undo_file.exists()) == (4, False)
    assert answer("topics", "describe", topic, url=url)["properties"] == {"a": "b"}


def test_a_ledger_is_not_listed_again_once_its_deletion_has_begun(url, topic, written, undo_file, monkeypatch):
    ledger = written[0]
    ok("topics", "drop-ledgers", topic, ledger, "--yes", "--undo-file", undo_file, url=url)
    undoing = ("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"))
    meanwhile(monkeypatch, "delete ledger", lambda: mledger_process(*undoing, url=url))
    file = undo_file.with_name("deletion.json")
    ok("ledgers", "delete", ledger, "--force", "--yes", "--undo-file", file, url=url)
    assert ledger not in [each["ledger_id"] for each in answer("topics", "describe", topic, url=url)["ledgers"]]
    assert deletion_path(ledger) not in tree(url)


def test_a_command_that_another_owner_fenced_does_not_claim_what_that_one_changed(
    url, topic, written, undo_file, monkeypatch
):
    first, second = undo_files_of(undo_file)
    clearing = ("cursors", "clear", topic, "one", "--take-over", *first)
    meanwhile(monkeypatch, "name cursor ledger", lambda: mledger_process(*clearing, url=url))
    done = mledger("cursors", "reset", topic, "one", "--to", "earliest", *second, url=url)
    assert done.code == 4
    assert "the new owner may have changed the same records" in done.err
    assert undo_files.load(undo_file).outcome is Outcome.BEGUN
    refused = mledger("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert refused.code == 4
    assert answer("cursors", "describe", topic, "one", url=url)["backlog"] == 0


@pytest.mark.parametrize("step", ["act", "delete topic"])
def test_entries_that_came_as_a_topic_is_deleted_stay(url, topic, written, undo_file, monkeypatch, step):
    async def publish():
        async with public.open_cluster(url, config=KEEP) as cluster:
            await fill(await cluster.open_topic(topic), 5)

    meanwhile(monkeypatch, step, lambda: run(publish()))
    done = mledger("topics", "delete", topic, "--yes", "--undo-file", undo_file, url=url)
    assert (done.code, undo_file.exists()) == (4, False)
    assert "was written since the plan was made" in done.err
    assert sum(each["entries"] for each in answer("topics", "describe", topic, url=url)["ledgers"]) == 30


def test_the_undo_file_does_not_claim_what_the_next_owner_did_before_it_was_completed(
    url, topic, written, undo_file, monkeypatch
):
    first, second = undo_files_of(undo_file)
    skipping = ("cursors", "skip", topic, "one", 3, *first)
    meanwhile(monkeypatch, "complete undo file", lambda: mledger_process(*skipping, url=url))
    done = mledger("cursors", "set-properties", topic, "one", "team=blue", *second, url=url)
    assert done.code == 0
    assert "had another owner before" in done.err
    refused = mledger("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert refused.code == 4
    assert answer("cursors", "describe", topic, "one", url=url)["backlog"] == 20
