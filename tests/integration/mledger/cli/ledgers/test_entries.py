"""`mledger ledgers read` on a real cluster."""

import asyncio

import pytest

import mledger as public
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok


@pytest.fixture
def ledger(url, topic):
    """A closed ledger of a topic, with ten entries."""
    ok("topics", "create", topic, url=url)
    return int(answer("topics", "produce", topic, "--count", 10, url=url)["first"].split(":")[0])


def test_entries_that_are_no_messages_are_shown_unchanged(url, topic, written) -> None:
    decoded = mledger("ledgers", "read", written[0], "--decode", url=url)
    assert decoded.code == 0
    assert decoded.out == mledger("ledgers", "read", written[0], url=url).out


def test_entries_of_a_ledger_are_read(url, ledger) -> None:
    read = ok("ledgers", "read", ledger, "--first", 8, "--output", "json", url=url).lines
    assert [entry["position"] for entry in read] == [f"{ledger}:8", f"{ledger}:9"]


def test_raw_payloads_are_printed_without_separators(url, topic) -> None:
    ok("topics", "create", topic, url=url)
    where = answer("topics", "produce", topic, "--raw", url=url, stdin="a\nb\n")["first"]
    assert ok("ledgers", "read", where.split(":")[0], "--raw", url=url).out == "ab"


def test_decoded_entries_of_a_topic_s_ledger_are_its_messages(url, topic) -> None:
    ok("topics", "create", topic, url=url)
    where = answer("topics", "produce", topic, "--key", "k", "--batch", 5, url=url, stdin="a\nb\n")["first"]
    read = ok("ledgers", "read", where.split(":")[0], "--decode", "--output", "json", url=url).lines
    assert [(each["payload"], each["key"], each["batch_index"]) for each in read] == [("a", "k", 0), ("b", "k", 1)]


def test_a_live_ledger_is_read_to_the_end_on_its_bookies_with_the_tail_marked(url, topic) -> None:
    async def main() -> None:
        async with public.open_cluster(url) as cluster:
            owned = await cluster.create_topic(topic)
            cursor = await owned.open_cursor("c")
            for number in range(4):
                last = await owned.add(b"%d" % number)
            await cursor.acknowledge_cumulative(last)
            await cursor.flush()
            read = await asyncio.to_thread(ok, "ledgers", "read", last.ledger_id, url=url)
            entries = await asyncio.to_thread(ok, "ledgers", "read", last.ledger_id, "--output", "json", url=url)
            state = await asyncio.to_thread(ok, "ledgers", "read", cursor.cursor_ledger, "--decode", url=url)
            topics = await asyncio.to_thread(ok, "topics", "read", topic, url=url)
            await owned.close()
        assert read.out.splitlines() == topics.out.splitlines() == ["0", "1", "2", "3"]
        assert f"{last} unconfirmed" in read.err
        assert f"{last} unconfirmed" in topics.err
        assert entries.lines[-1]["unconfirmed"]
        assert not entries.lines[0]["unconfirmed"]
        assert state.lines[-1]["state"]["position"] == str(last)

    run(main())


def test_an_entry_past_the_end_is_not_found(url, ledger) -> None:
    assert mledger("ledgers", "read", ledger, "--first", 10, url=url).code == 3
