"""Topics by name: created, found, listed, refused (M9, public API)."""

import asyncio

import pytest

import mledger
from mledger.bookie.errors import NotEnoughBookies
from mledger.metastore.errors import InvalidName
from mledger.metastore.records.paths import managed_ledger_path
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.topics import CONFIG, KEEP, everything, fill, payloads


def test_a_topic_is_created_once_and_found_under_each_of_its_names(topic_url):
    async def main():
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic("named/ns/a b", properties={"k": "v"})
            assert opened.name == "named/ns/persistent/a+b"
            with pytest.raises(mledger.TopicExists, match="exists"):
                await cluster.create_topic("persistent://named/ns/a b")
            with pytest.raises(mledger.TopicExists, match="open here"):
                await cluster.open_topic("persistent://named/ns/a b", exclusive=True)
            assert await cluster.open_topic("persistent://named/ns/a b") is opened
            await opened.close()
            again = await cluster.open_topic("persistent://named/ns/a b", create=True)
            assert again.properties == {"k": "v"}

    run(main())


@pytest.mark.parametrize("name", ["", "a/b", "persistent://a/b", "non-persistent://a/b/c", "persistent://a b/c/d"])
def test_a_bad_name_is_refused(topic_url, name):
    async def main():
        async with mledger.open_cluster(topic_url) as cluster:
            for work in (cluster.create_topic, cluster.open_topic, cluster.delete_topic):
                with pytest.raises(InvalidName):
                    await work(name)

    run(main())


def test_an_unknown_topic_is_not_found_and_not_created(topic_url):
    async def main():
        async with mledger.open_cluster(topic_url) as cluster:
            for work in (cluster.open_topic, cluster.delete_topic, cluster.inspector.topic, cluster.inspector.cursors):
                with pytest.raises(mledger.TopicNotFound, match="nowhere"):
                    await work("persistent://nobody/ns/nowhere")
            assert await cluster.topics("nobody") == []

    run(main())


def test_topics_are_listed_by_tenant_and_namespace_with_old_names(metadata_url):
    async def main():
        names = [
            "persistent://one/ns/a",
            "persistent://one/ns/b c",
            "persistent://one/other/a",
            "persistent://two/ns/ü",
            "persistent://two/cluster/ns/old",
        ]
        async with await open_store(metadata_url) as store:
            for name in names:
                topic = mledger.TopicName.parse(name)
                await store.create(managed_ledger_path(topic.managed_ledger_name), parents=True)
                await store.create(f"{topic.managed_ledger_path}/cursor", b"")
        async with mledger.open_cluster(metadata_url) as cluster:
            assert sorted(await cluster.topics()) == sorted(names)
            assert sorted(await cluster.topics("one")) == sorted(names[:3])
            assert await cluster.topics("one/ns") == names[:2]
            assert await cluster.topics("two/cluster/ns") == names[4:]

    run(main())


def test_an_empty_record_is_a_topic_without_ledgers(topic_url, topic):
    async def main():
        path = managed_ledger_path(mledger.TopicName.parse(topic).managed_ledger_name)
        async with await open_store(topic_url) as store:
            await store.create(path, parents=True)
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            assert (await cluster.inspector.topic(topic)).ledgers == ()
            opened = await cluster.open_topic(topic)
            await fill(opened, 3)
            assert await everything(opened) == payloads(3)

    run(main())


def test_without_enough_bookies_no_topic_is_left_behind(cluster_url):
    async def main():
        async with mledger.open_cluster(cluster_url, config=KEEP) as cluster:
            with pytest.raises(NotEnoughBookies):
                await cluster.create_topic("persistent://a/b/c")
            assert await cluster.topics() == []

    run(main())


def test_a_creation_that_fails_leaves_the_topic_that_another_process_has_created_meanwhile(cluster_url, monkeypatch):
    async def main():
        async with mledger.open_cluster(cluster_url, config=KEEP) as cluster, await open_store(cluster_url) as other:
            path = mledger.TopicName.parse("persistent://a/b/c").managed_ledger_path

            async def create_ledger(*_, **__):
                await other.delete(path)
                await other.create(path, b"")
                raise NotEnoughBookies("there are no bookies")

            monkeypatch.setattr(cluster.bookkeeper, "create_ledger", create_ledger)
            with pytest.raises(NotEnoughBookies):
                await cluster.create_topic("persistent://a/b/c")
            assert await cluster.topics() == ["persistent://a/b/c"]

    run(main())


def test_a_topic_is_not_created_with_properties_that_it_cannot_have(cluster_url):
    async def main():
        async with mledger.open_cluster(cluster_url, config=KEEP) as cluster:
            with pytest.raises(mledger.InvalidProperties):
                await cluster.create_topic("persistent://a/b/c", properties={"PULSAR.SHADOW_SOURCE": "d"})
            assert await cluster.topics() == []

    run(main())


def test_leaving_the_cluster_closes_its_topics_cleanly(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 5)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge(positions[:2])
        assert opened.state is mledger.TopicState.CLOSED
        assert cursor.status is mledger.CursorStatus.CLOSED
        with pytest.raises(mledger.ManagedLedgerClosed):
            opened.append([b"late"])
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            found = (await cluster.inspector.cursors(topic))[0]
            assert (found.plan.rule, found.plan.mark_delete) == ("R2", positions[1])
            assert (await cluster.inspector.topic(topic)).owner is None

    run(main())


def test_a_topic_that_was_closed_or_abandoned_is_not_counted_among_those_open(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            assert list(cluster.opened.values()) == [opened]
            await opened.close()
            assert not cluster.opened
            again = await cluster.open_topic(topic)
            await opened.close()
            assert list(cluster.opened.values()) == [again]
            await again.abandon()
            assert not cluster.opened

    run(main())


def test_a_failing_event_sink_stops_neither_appends_nor_waiting_readers(topic_url, topic):
    failed, seen = [], []

    def sink(event):
        seen.append(type(event))
        raise KeyError(type(event).__name__)

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context["exception"]))
        async with (
            mledger.open_cluster(topic_url, config=KEEP) as cluster,
            mledger.open_cluster(topic_url, config=KEEP) as other,
        ):
            opened = await cluster.create_topic(topic, events=sink)
            cursor = await opened.open_cursor("sub")
            await fill(opened, 25)  # over three ledgers
            assert await everything(opened) == payloads(25)
            await cursor.clear_backlog()
            waiting = asyncio.ensure_future(cursor.read_or_wait(1))
            await (await other.open_topic(topic, take_over=True)).initialized()
            with pytest.raises(mledger.ManagedLedgerFenced):
                await opened.append(payloads(1))
            with pytest.raises(mledger.ManagedLedgerFenced):
                await waiting
        assert len(failed) == len(seen) > 5

    run(main())
