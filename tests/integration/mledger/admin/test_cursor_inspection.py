"""Inspects two cursors whose nodes decode to one name, as other programs may spell them."""

import pytest

import mledger as public
from mledger.admin.inspect import Inspector
from mledger.admin.internal_stats import read_internals
from mledger.admin.repair.repairer import FactsReader
from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.metastore.records.paths import managed_ledger_path
from mledger.metastore.url import open_reader
from tests.support.aio import run
from tests.support.cli import answer
from tests.support.topics import KEEP, fill


@pytest.fixture
def last(topic_url, topic):
    """The last of ten positions: the cursor `a b` has a backlog of 10, the one at `a%20b` a backlog of 4."""

    async def main():
        async with public.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("a b")
            positions = await fill(opened, 10)
            await cursor.acknowledge_cumulative(positions[5])
            await opened.close()
            path = managed_ledger_path(opened.name)
            await cluster.metadata.create(f"{path}/a%20b", (await cluster.metadata.get(f"{path}/a+b")).data)
            opened = await cluster.open_topic(topic)
            await (await opened.open_cursor("a b")).reset("earliest")
            await opened.close()
            return positions[-1]

    return run(main())


def test_both_are_inspected_under_their_own_names(topic_url, topic, last):
    async def main():
        async with await open_reader(topic_url) as reader:
            bookies = BookKeeperReader(reader, ClientConfig())
            inspector = Inspector(reader, bookies)
            seen = await inspector.topic(topic)
            assert seen.cursors == ("a b", "a%20b")
            path = managed_ledger_path(seen.managed_ledger)
            found = {each.name: (each.path, each.plan.backlog) for each in await inspector.cursors(topic)}
            assert found == {"a b": (f"{path}/a+b", 10), "a%20b": (f"{path}/a%20b", 4)}
            internals = await read_internals(reader, bookies, topic)
            assert {each.child: each.found.plan.backlog for each in internals.cursors} == {"a+b": 10, "a%20b": 4}
            (facts,) = await FactsReader(reader, bookies).read([seen.managed_ledger])
            assert {each.name: each.path for each in facts.cursors} == {name: at for name, (at, _) in found.items()}
            await bookies.close()

    run(main())


def test_a_command_changes_the_one_that_it_names(topic_url, topic, last, tmp_path):
    planned = answer("cursors", "clear", topic, "a%20b", "--dry-run", url=topic_url)
    assert (planned["backlog_before"], planned["mark_delete_after"]) == (4, str(last))
    answer("cursors", "clear", topic, "a%20b", "--yes", "--undo-file", tmp_path / "undo.json", url=topic_url)
    listed = {each["cursor"]: each["backlog"] for each in answer("cursors", "list", topic, url=topic_url)}
    assert listed == {"a b": 10, "a%20b": 0}
    answer("undo", tmp_path / "undo.json", "--yes", "--undo-file", tmp_path / "redo.json", url=topic_url)
    listed = {each["cursor"]: each["backlog"] for each in answer("cursors", "list", topic, url=topic_url)}
    assert listed == {"a b": 10, "a%20b": 4}
