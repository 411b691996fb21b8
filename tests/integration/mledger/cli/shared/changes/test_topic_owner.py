"""A command that writes looks for an owner first (M9)."""

import asyncio

import pytest

import mledger as public
from mledger.admin.undo.undo_file import Outcome
from mledger.cli.shared.changes import change_command, topic_owner, undo_files
from mledger.metastore.session import SESSION_TIMEOUT_S
from tests.support.aio import run
from tests.support.cli import mledger, ok
from tests.support.commands.meanwhile import meanwhile


def test_a_live_owner_is_left_alone_unless_taken_over(url, topic, monkeypatch) -> None:
    monkeypatch.setattr("mledger.settings.SESSION_TIMEOUT_S", 1.0)

    async def main() -> None:
        async with public.open_cluster(url) as cluster:
            owned = await cluster.create_topic(topic)
            refused = await asyncio.to_thread(mledger, "topics", "produce", topic, "--count", 1, url=url)
            assert refused.code == 4
            assert "--take-over" in refused.err
            await owned.add(b"still the owner")
            await asyncio.to_thread(ok, "topics", "produce", topic, "--count", 1, "--take-over", url=url)
            with pytest.raises(public.ManagedLedgerFenced):
                await owned.add(b"no longer")
            await owned.abandon()

    run(main())


def test_an_owner_that_may_be_dead_is_waited_for_as_long_as_its_configured_session_lasts(
    url, topic, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the commands leave their undo files
    waited = []

    async def checked(reader, managed_ledger, *, session_timeout) -> None:
        waited.append(session_timeout)

    monkeypatch.setattr(change_command, "check_owner", checked)
    monkeypatch.chdir(tmp_path)  # for the undo files
    ok("topics", "create", topic, url=url)
    ok("topics", "produce", topic, "--count", 1, url=url)
    ok("topics", "truncate", topic, "--yes", "--set", "metadataStoreSessionTimeoutMillis=2500", url=url)
    ok("topics", "terminate", topic, "--yes", url=url)
    assert waited == [2.5, SESSION_TIMEOUT_S]


def test_a_command_ends_by_its_timeout_though_bookies_keep_the_topic_from_closing(
    bookies, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(topic_owner, "CLOSED_WITHIN_S", 0.1)
    bookies.start(3)
    url, topic = bookies.metadata_url, "persistent://public/default/orders"
    ok("topics", "create", topic, "--ensemble-size", 3, "--write-quorum", 3, "--ack-quorum", 2, url=url)
    ok("cursors", "create", topic, "billing", url=url)
    ok("topics", "produce", topic, "--count", 5, url=url)
    meanwhile(monkeypatch, "act", lambda: [bookies.freeze(number) for number in (0, 1)])
    undo_file = tmp_path / "undo.json"
    skip = ("cursors", "skip", topic, "billing", 1, "--yes", "--undo-file", undo_file, "--timeout", 3)
    done = mledger(*skip, url=url)
    assert (done.code, undo_files.load(undo_file).outcome) == (5, Outcome.BEGUN)
    assert "not done within --timeout, 3 s" in done.err
    for number in (0, 1):
        bookies.thaw(number)
    ok("cursors", "skip", topic, "billing", 2, "--yes", "--undo-file", tmp_path / "again.json", url=url)
