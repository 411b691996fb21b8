"""Shadow topics list their source's ledgers: commands that change refuse them by name, and those that read say so."""

import pytest

from mledger.ledgers.shadow_topics import SHADOW_SOURCE
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo
from mledger.metastore.store import ANY_VERSION
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok

QUORUMS = ("--ensemble-size", 1, "--write-quorum", 1, "--ack-quorum", 1)


async def make_shadow(url: str, source: str) -> str:
    """A shadow of `source` as a broker leaves it: the source's list, and the property that names the source."""
    shadow = TopicName.parse(f"{source}-shadow")
    async with await open_store(url) as store:
        path = TopicName.parse(source).managed_ledger_path
        info = decode_managed_ledger_info((await store.get(path)).data, path).value
        copied = ManagedLedgerInfo(info.ledgers, properties=((SHADOW_SOURCE, source),))
        await store.create(shadow.managed_ledger_path, encode_managed_ledger_info(copied))
    return str(shadow)


@pytest.fixture
def shadow(url, topic):
    """A shadow of a topic with five messages."""
    ok("topics", "create", topic, *QUORUMS, url=url)
    ok("cursors", "create", topic, "c", *QUORUMS, url=url)
    ok("topics", "produce", topic, "--count", 5, *QUORUMS, url=url)
    return run(make_shadow(url, topic))


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "trim", "{}", "--dry-run"),
        ("topics", "truncate", "{}", "--yes"),
        ("topics", "terminate", "{}", "--yes"),
        ("topics", "delete", "{}", "--dry-run"),
        ("topics", "delete", "{}", "--yes"),
        ("topics", "set-properties", "{}", "a=b", "--yes"),
        ("topics", "drop-ledgers", "{}", "1", "--yes"),
        ("topics", "produce", "{}", "--count", "1"),
        ("cursors", "create", "{}", "s"),
    ],
    ids=" ".join,
)
def test_commands_that_change_refuse_a_shadow_by_name(url, topic, shadow, command):
    refused = mledger(*(part.format(shadow) for part in command), url=url)
    assert refused.code == 4, refused
    assert f"is a shadow of {topic}" in refused.err
    assert answer("topics", "describe", topic, url=url)["entries"] == 5


@pytest.mark.parametrize("partitions", [(), ("--partitions", 2)])
def test_no_property_makes_a_shadow_of_a_topic(url, topic, undo_file, partitions):
    given = f"{SHADOW_SOURCE}=persistent://public/default/source"
    refused = mledger("topics", "create", topic, *partitions, "--property", given, url=url)
    assert refused.code == 1
    assert "would make the topic a shadow" in refused.err
    ok("topics", "create", topic, *partitions, url=url)
    refused = mledger("topics", "set-properties", topic, given, "--yes", "--undo-file", undo_file, url=url)
    assert refused.code == 1
    assert "would make the topic a shadow" in refused.err
    assert not undo_file.exists()
    ok("topics", "delete", topic, "--yes", "--undo-file", undo_file, url=url)


def test_reading_shows_the_ledgers_of_the_source_and_says_so(url, topic, shadow):
    ok("topics", "produce", topic, "--count", 3, *QUORUMS, url=url)
    described = answer("topics", "describe", shadow, url=url)
    assert described["entries"] == 8
    assert f"a shadow of {topic}" in described["warnings"][0]
    assert len(ok("topics", "read", shadow, url=url).out.splitlines()) == 8


@pytest.mark.parametrize("command", ["describe", "read"])
def test_the_record_that_lists_a_negative_ledger_id_is_named(url, topic, shadow, command):
    source = TopicName.parse(topic).managed_ledger_path

    async def damage():
        async with await open_store(url) as store:
            listed = ManagedLedgerInfo((LedgerInfo(-5, 0, 0, 0),))
            await store.put(source, encode_managed_ledger_info(listed), ANY_VERSION)

    run(damage())
    done = mledger("topics", command, shadow, url=url)
    assert done.code == 1
    assert f"{source} lists -5, which is no ledger's id" in done.err


def test_a_shadow_whose_source_was_trimmed_is_neither_dangling_nor_repaired(url, topic, shadow):
    ok("topics", "delete", topic, "--yes", *QUORUMS, url=url)
    checked = answer("ledgers", "check", "--topic", shadow, "--references-only", url=url)
    assert (checked["dangling"], checked["found"]) == ([], False)
    planned = answer("topics", "repair", shadow, "--dry-run", url=url)
    assert planned["mends"] == []
    assert "is a shadow" in planned["not_looked_at"][0]["reason"]
