"""What Java wrote, on its bookies and on ours, passes our check, needs no repair, and can be backed up."""

import pytest

from mledger.bookie.client import BookKeeperReader
from mledger.metastore.url import open_reader
from tests.interop.topics import PAYLOADS, full_name, managed_ledger_name, write_java
from tests.support.aio import run
from tests.support.cli import answer, mledger
from tests.support.metadata.tree import tree

pytestmark = pytest.mark.interop


@pytest.fixture
def topic(request, side):
    """A topic that Java wrote and closed."""
    name = "".join(character if character.isalnum() else "-" for character in request.node.name)
    write_java(side.java, name)
    side.java.call("topic.close", topic=managed_ledger_name(name))
    return name


def test_every_copy_that_java_wrote_is_whole(side, topic):
    before = tree(side.url)
    found = answer("ledgers", "check", "--topic", full_name(topic), url=side.url)
    assert tree(side.url) == before
    assert not found["found"]
    assert found["entries"] == len(PAYLOADS)
    assert found["whole_copies"] == sum(copies(side.url, ledger) for ledger in ledgers(side.url, topic))


def test_a_topic_that_java_closed_needs_no_repair(side, topic):
    planned = answer("topics", "repair", full_name(topic), "--min-age", 0, "--dry-run", url=side.url)
    assert (planned["left"], planned["not_looked_at"]) == ([], [])
    assert [each for each in planned["mends"] if each["wrong"] != "ledger is an orphan"] == []


def test_an_unreachable_bookie_is_reported_and_nothing_is_called_damaged(side, topic):
    away = side.bookies.ids[0]
    side.bookies.stop(away)
    try:
        done = mledger("ledgers", "check", "--topic", full_name(topic), "--output", "json", url=side.url)
    finally:
        side.bookies.start(away)
    assert done.json["bad_copies"] == []
    assert {each["bookie_id"] for each in done.json["away"]} <= {away}
    assert done.code in (0, 5)


def test_a_striped_ledger_of_java_is_checked(side):
    made = side.java.call(
        "ledger.create", handle="striped", ensemble=3, write_quorum=2, ack_quorum=2, digest="CRC32", password="secret"
    )
    side.java.call("ledger.append", handle="striped", entries=[b"twelve bytes".hex()] * 50)
    side.java.call("ledger.close", handle="striped")
    found = answer("ledgers", "check", made["ledger"], url=side.url)
    assert (found["entries"], found["whole_copies"], found["size"]) == (50, 100, 1200)


def test_a_tree_that_java_wrote_to_is_backed_up(side, topic, tmp_path):
    file = tmp_path / "backup"
    answer("metadata", "backup", file, url=side.url)
    planned = answer("metadata", "restore", file, "--dry-run", url=side.url)
    assert (planned["create"], planned["change"]) == (0, 0)


def ledgers(url, topic) -> list[int]:
    return [each["ledger_id"] for each in answer("topics", "describe", full_name(topic), url=url)["ledgers"]]


def copies(url, ledger_id: int) -> int:
    async def look():
        async with await open_reader(url) as reader:
            bookkeeper = BookKeeperReader(reader)
            metadata = await bookkeeper.metadata(ledger_id)
            await bookkeeper.close()
            return (metadata.last_entry + 1) * metadata.write_quorum

    return run(look())
