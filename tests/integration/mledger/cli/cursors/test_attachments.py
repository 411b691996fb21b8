"""`mledger cursors delete` also deletes what Pulsar keeps beside a cursor; cursors of brokers are not moved."""

from dataclasses import replace
from itertools import pairwise

import pytest

import mledger as public
from mledger.admin.references.attached_ledgers import pending_ack_topic
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.values import COMPACTED_LEDGER
from tests.support.aio import run
from tests.support.cli import answer, mledger
from tests.support.compacted_topics import compacted_topic, exists
from tests.support.topics import KEEP, assert_nothing_orphaned

ONE_BOOKIE = replace(KEEP, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)


def there(url, ledgers):
    async def main():
        return [name for name, ledger_id in ledgers.items() if await exists(url, ledger_id)]

    return run(main())


@pytest.fixture
def one_bookie():
    """Settings with which the ledgers of a command need one bookie."""
    return ("--ensemble-size", 1, "--write-quorum", 1, "--ack-quorum", 1)


def test_a_subscription_is_deleted_with_its_bucket_and_its_pending_acknowledgements(url, topic, tmp_path, one_bookie):
    ours, others = run(compacted_topic(url, topic, clean=True, config=ONE_BOOKIE))
    acks = str(pending_ack_topic(TopicName.parse(topic), "delayed"))
    plan = answer("cursors", "delete", topic, "delayed", "--dry-run", url=url)
    assert plan["topics_deleted"] == [acks]
    shown = {(each["topic"], each["ledger_id"], each["named_as"]) for each in plan["ledgers"]}
    assert (topic, ours["bucket"], "delayed delivery") in shown
    assert {where for where, *_ in shown} == {topic, acks}
    assert any(str(ours["bucket"]) in line for line in plan["lost"])
    assert "bucket" in there(url, ours)
    file = tmp_path / "undo.json"
    answer("cursors", "delete", topic, "delayed", "--yes", "--undo-file", file, *one_bookie, url=url)
    assert set(there(url, ours)) == {"compacted", "stale"}
    assert len(there(url, {each: each for each in others})) == len(others)

    async def main():
        async with public.open_cluster(url, config=ONE_BOOKIE) as cluster:
            assert await cluster.metadata.exists(TopicName.parse(acks).managed_ledger_path) is None
        await assert_nothing_orphaned(url, TopicName.parse(topic).managed_ledger_name)

    run(main())
    undone = answer("undo", file, "--accept-loss", "--yes", "--undo-file", tmp_path / "redo.json", *one_bookie, url=url)
    assert any(
        f"gone: #pulsar.internal.delayed.bucket_1_1 {ours['bucket']}" in each["note"] for each in undone["records"]
    )
    described = answer("cursors", "describe", topic, "delayed", url=url)
    assert str(ours["bucket"]) not in described["cursor_properties"].values()


def test_the_cursor_of_compaction_is_deleted_with_the_compacted_ledger_of_its_last_state(
    url, topic, tmp_path, one_bookie
):
    ours, _ = run(compacted_topic(url, topic, clean=False, config=ONE_BOOKIE))
    file = tmp_path / "undo.json"
    answer("cursors", "delete", topic, "__compaction", "--yes", "--undo-file", file, *one_bookie, url=url)
    assert "compacted" not in there(url, ours)
    assert "bucket" in there(url, ours)
    undone = answer("undo", file, "--yes", "--undo-file", tmp_path / "redo.json", *one_bookie, url=url)
    assert f"CompactedTopicLedger {ours['compacted']}" in undone["records"][0]["note"]
    described = answer("cursors", "describe", topic, "__compaction", url=url)
    assert described["properties"] == {}
    assert described["backlog"] == 2  # the next compaction takes in all that the topic has


def test_a_subscription_whose_client_names_the_compacted_ledger_is_deleted_without_it(url, topic, tmp_path, one_bookie):
    ours, _ = run(compacted_topic(url, topic, clean=True, config=ONE_BOOKIE))

    async def main():
        async with public.open_cluster(url, config=ONE_BOOKIE) as cluster:
            opened = await cluster.open_topic(topic, trim=False)
            cursor = await opened.open_cursor("mine")
            await cursor.acknowledge_cumulative(opened.last_confirmed, {COMPACTED_LEDGER: ours["compacted"]})
            await opened.close()

    run(main())
    files = [tmp_path / f"{number}.json" for number in range(3)]
    answer("cursors", "delete", topic, "mine", "--yes", "--undo-file", files[0], *one_bookie, url=url)
    assert "compacted" in there(url, ours)
    for file, then in pairwise(files):  # the cursor comes back, and goes again
        answer("undo", file, "--yes", "--undo-file", then, *one_bookie, url=url)
        assert "compacted" in there(url, ours)


def test_a_subscription_comes_back_whose_client_names_another_topics_ledger(url, topic, tmp_path, one_bookie):
    async def main():
        async with public.open_cluster(url, config=ONE_BOOKIE) as cluster:
            other = await cluster.create_topic(f"{topic}-other")
            properties = {COMPACTED_LEDGER: other.ledger_list.current}
            opened = await cluster.create_topic(topic)
            await opened.append([b"1"])
            await (await opened.open_cursor("mine")).acknowledge_cumulative(opened.last_confirmed, properties)
            await opened.close()
            return properties

    properties, file = run(main()), tmp_path / "undo.json"
    answer("cursors", "delete", topic, "mine", "--yes", "--undo-file", file, *one_bookie, url=url)
    answer("undo", file, "--yes", "--undo-file", tmp_path / "redo.json", *one_bookie, url=url)
    assert answer("cursors", "describe", topic, "mine", url=url)["properties"] == properties


def test_acknowledgements_that_may_belong_to_another_topic_are_kept(url, topic, tmp_path, one_bookie):
    """One topic name stands for the subscription of two topics. It is deleted with the last of them."""
    other = f"{topic}-b"
    shared = str(pending_ack_topic(TopicName.parse(other), "c"))
    assert shared == str(pending_ack_topic(TopicName.parse(topic), "b-c"))

    async def main():
        async with public.open_cluster(url, config=ONE_BOOKIE) as cluster:
            for name, subscription in ((topic, "b-c"), (other, "c"), (shared, "__pending_ack_state")):
                await (await cluster.create_topic(name)).open_cursor(subscription)

    run(main())

    def delete(name, subscription):
        file = tmp_path / f"undo-{subscription}.json"
        answer("cursors", "delete", name, subscription, "--yes", "--undo-file", file, *one_bookie, url=url)
        return {each["topic"] for each in answer("topics", "list", url=url)}

    assert shared in delete(topic, "b-c")
    assert shared not in delete(other, "c")


@pytest.mark.parametrize(
    ("cursor", "why"), [("__compaction", "pulsar-admin topics compact"), ("pulsar.dedup", "messages again")]
)
@pytest.mark.parametrize("command", [["skip", "1"], ["clear"]])
def test_a_cursor_of_brokers_is_not_moved_past_what_they_have_taken_in(url, topic, tmp_path, command, cursor, why):
    async def main():
        async with public.open_cluster(url, config=ONE_BOOKIE) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.append([b"1", b"2", b"3"])
            await opened.open_cursor(cursor, initial="earliest")
            await opened.close()

    run(main())
    before = answer("cursors", "describe", topic, cursor, url=url)
    name, *rest = command
    refused = mledger("cursors", name, topic, cursor, *rest, "--yes", "--undo-file", tmp_path / "undo.json", url=url)
    assert refused.code != 0
    assert why in refused.err
    assert answer("cursors", "describe", topic, cursor, url=url) == before
    assert not list(tmp_path.iterdir())
