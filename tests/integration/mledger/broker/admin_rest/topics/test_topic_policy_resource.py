"""Policies of topics that are set over HTTP are events that open topics follow."""

import asyncio

from mledger.admin.policies.policy_events import PolicyScope
from mledger.broker.admin_rest.topics.topic_policy_resource import DISABLED
from mledger.broker.admin_rest.topics.topic_policy_table import TOPIC_POLICIES, TOPIC_POLICIES_NOT_FOLLOWED
from mledger.broker.topics.compaction.topic_compaction import CompactionStatus
from mledger.metastore.records.paths import TopicName
from mledger.pb import PulsarApi_pb2 as pb
from mledger.topics.services import policy_watch
from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.compacted_topics import topic_of
from tests.support.metadata.namespaces import create_namespace_at
from tests.support.recordings.policies import EVENTS, put_schema

RETENTION = {"retentionTimeInMinutes": 10, "retentionSizeInMB": 100}


def path_of(topic):
    return topic.replace("://", "/")


async def told_of(opened, reached):
    """Wait until the open topic has followed its policies."""
    told = asyncio.Event()
    opened.managed_ledger.on_policies(lambda _: told.set())
    while not reached():
        await told.wait()
        told.clear()
        await asyncio.sleep(0)


def test_an_open_topic_follows_a_policy_at_once(broker_url, own_topic, monkeypatch):
    monkeypatch.setattr(policy_watch, "LOOK_AGAIN_S", 1000.0)

    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=own_topic)
            (opened,) = broker.broker.topics.open
            waiting = asyncio.create_task(told_of(opened, lambda: opened.producers.most == 1))
            await asyncio.sleep(0)
            path = f"{path_of(own_topic)}/maxProducers"
            await broker.done("POST", path, 1)
            await waiting
            refused = await client.request(pb.BaseCommand.PRODUCER, "producer", "error", topic=own_topic, producer_id=1)
            assert refused.error == pb.ProducerBusy
            waiting = asyncio.create_task(told_of(opened, lambda: opened.producers.most == 0))
            await asyncio.sleep(0)
            await broker.done("DELETE", path)
            await waiting
            await client.producer(1, own_topic)

    run(main())


def test_policies_of_topics_that_are_switched_off_do_not_count_any_more(broker_url, own_topic):
    async def main():
        name, path = TopicName.parse(own_topic), f"{path_of(own_topic)}/retention"
        async with web_served(broker_url) as broker:
            await broker.done("PUT", path_of(own_topic))
            await broker.done("POST", path, {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0})
            assert (await broker.cluster.policies.of_namespace(name)).of(name).topic.retention is not None
        async with web_served(broker_url, topic_level_policies=False) as broker:
            assert (await broker.cluster.policies.of_namespace(name)).of(name).topic.retention is None
            for method in ("GET", "POST", "DELETE"):
                status, reason = await broker.refused(method, path, RETENTION if method == "POST" else None)
                assert (status, reason) == (405, DISABLED)

    run(main())


RATE = {
    "dispatchThrottlingRateInMsg": 5,
    "dispatchThrottlingRateInByte": -1,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}


def shown(answer):
    """Whether GET answered that there is nothing, with 204, and the value."""
    return answer.status == 204, answer.json if answer.body else None


def test_every_policy_is_read_set_and_removed(broker_url, own_topic):
    values = {
        "retention": RETENTION,
        "persistence": {
            "bookkeeperEnsemble": 1,
            "bookkeeperWriteQuorum": 1,
            "bookkeeperAckQuorum": 1,
            "managedLedgerMaxMarkDeleteRate": 2.0,
        },
        "deduplicationEnabled": True,
        "publishRate": {"publishThrottlingRateInMsg": 1, "publishThrottlingRateInByte": 2},
        "delayedDelivery": {"active": False, "tickTime": 1, "maxDeliveryDelayInMillis": 2},
        "autoSubscriptionCreation": {"allowAutoSubscriptionCreation": False},
        "subscriptionTypesEnabled": ["Shared"],
        "schemaCompatibilityStrategy": "FORWARD",
        "schemaValidationEnforced": True,
        "subscribeRate": {"subscribeThrottlingRatePerConsumer": 2, "ratePeriodInSecond": 3},
        "inactiveTopicPolicies": {
            "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
            "maxInactiveDurationSeconds": 60,
            "deleteWhileInactive": True,
        },
    }
    for path in ("dispatchRate", "subscriptionDispatchRate"):
        values[path] = {
            "dispatchThrottlingRateInMsg": 1,
            "dispatchThrottlingRateInByte": 2,
            "relativeToPublishRate": True,
            "ratePeriodInSecond": 3,
        }

    async def main():
        async with web_served(broker_url) as broker:
            base = path_of(own_topic)
            assert (await broker.refused("GET", f"{base}/retention"))[0] == 404
            await broker.done("PUT", f"{base}/partitions", 2)
            for each in TOPIC_POLICIES:
                assert shown(await broker.ask("GET", f"{base}/{each.path}")) == (each.no_content, each.unset)
                if each.removable:
                    assert (await broker.ask("DELETE", f"{base}/{each.path}")).status == 204
            events = TopicName.parse(f"{own_topic.removesuffix('/t')}/__change_events")
            assert await broker.cluster.store.exists(events.managed_ledger_path) is None  # nothing to write
            for each in TOPIC_POLICIES:
                if each.parameter:
                    await broker.done("POST", f"{base}/{each.path}?{each.parameter}=7")
                else:
                    await broker.done(each.setter, f"{base}/{each.path}", values.get(each.path, 7))
            for each in TOPIC_POLICIES:
                assert await broker.get(f"{base}/{each.path}") == values.get(each.path, 7)
            for each in TOPIC_POLICIES[1:]:
                if each.removable:
                    await broker.done("DELETE", f"{base}/{each.path}")
                    left = each.unset if each.removed is None else each.removed
                    assert shown(await broker.ask("GET", f"{base}/{each.path}")) == (each.no_content, left)
            assert await broker.get(f"{base}/retention") == RETENTION
            assert (await broker.refused("GET", f"{base}-partition-0/retention"))[0] == 412

    run(main())


def test_a_subscription_has_a_dispatch_rate_of_its_own(broker_url, own_topic):
    async def main():
        async with web_served(broker_url) as broker:
            base = path_of(own_topic)
            one, other = f"{base}/a%2Fb/dispatchRate", f"{base}/subscription/dispatchRate"
            assert (await broker.refused("POST", one, RATE))[0] == 404
            await broker.done("PUT", base)
            events = TopicName.parse(f"{own_topic.removesuffix('/t')}/__change_events")
            for body in (None, {}, RATE | {"dispatchThrottlingRateInMsg": 0}):
                await broker.done("POST", one, body)
            await broker.done("DELETE", one)
            assert await broker.cluster.store.exists(events.managed_ledger_path) is None  # nothing to write
            for path in (one, other):
                await broker.done("POST", path, RATE)
                assert await broker.get(path) == RATE
            await broker.done("DELETE", one)
            assert [await broker.get(path) for path in (one, other)] == [None, RATE]
            for wrong in (
                [1],
                "x",
                {"dispatchThrottlingRateInMsg": "x"},
                {"dispatchThrottlingRateInMsg": 1 << 31},
                b"{",
            ):
                assert (await broker.refused("POST", one, wrong))[0] == 400, wrong
            await broker.done("PUT", f"{base}-many/partitions", 1)
            assert (await broker.refused("GET", f"{base}-many-partition-0/a/dispatchRate"))[0] == 412
            assert (await broker.ask("DELETE", f"{base}/policies")).status == 204
            assert await broker.get(other) is None

    run(main())


def test_backlog_quotas_and_the_policies_of_all_clusters(broker_url, own_topic):
    async def main():
        async with web_served(broker_url) as broker:
            base = path_of(own_topic)
            await broker.done("PUT", base)
            size = {"limitSize": 1 << 20, "limitTime": 0, "policy": "producer_exception"}
            await broker.done("POST", f"{base}/backlogQuota", size)
            age = {"limitTime": 60, "policy": "consumer_backlog_eviction"}
            await broker.done("POST", f"{base}/backlogQuota?backlogQuotaType=message_age", age)
            shown = await broker.get(f"{base}/backlogQuotaMap")
            assert shown["destination_storage"] == {**size, "limit": 1 << 20}
            assert shown["message_age"]["limitTime"] == 60
            refused = await broker.refused("POST", f"{base}/retention", RETENTION | {"retentionSizeInMB": 1})
            assert refused[0] == 412
            await broker.done("DELETE", f"{base}/backlogQuota?backlogQuotaType=message_age")
            assert set(await broker.get(f"{base}/backlogQuotaMap")) == {"destination_storage"}
            await broker.done("POST", f"{base}/maxProducers?isGlobal=true", 5)
            assert await broker.get(f"{base}/maxProducers?isGlobal=true") == 5
            assert await broker.get(f"{base}/maxProducers") is None
            await broker.done("POST", f"{base}/messageTTL")  # without the parameter it is unset
            for path in TOPIC_POLICIES_NOT_FOLLOWED:
                assert (await broker.refused("GET", f"{base}/{path}"))[0] == 501

    run(main())


def test_changes_at_once_lose_nothing(broker_url, own_topic):
    limits = [each.path for each in TOPIC_POLICIES if each.path.startswith("max")]

    async def main():
        async with web_served(broker_url) as broker:
            base = path_of(own_topic)
            await broker.done("PUT", base)
            await asyncio.gather(*(broker.done("POST", f"{base}/{path}", value) for value, path in enumerate(limits)))
            assert [await broker.get(f"{base}/{path}") for path in limits] == list(range(len(limits)))

    run(main())


def test_a_record_of_pulsars_broker_is_changed_and_keeps_its_fields(unshared_url):
    create_namespace_at(unshared_url, "public/kept")

    async def main():
        async with web_served(unshared_url) as broker:
            client = await broker.connect()
            await client.producer(0, "persistent://public/kept/own")
            await put_schema(broker.cluster.store, broker.cluster.bookkeeper, "public/kept")
            await client.producer(1, "persistent://public/kept/__change_events")
            for sequence, event in enumerate(EVENTS):
                client.send(pb.BaseCommand.SEND, "send", payload=event, producer_id=1, sequence_id=sequence)
                await client.expect("send_receipt")
            base, name = "persistent/public/kept/own", TopicName.parse("persistent://public/kept/own")
            before = (await broker.cluster.policies.of_namespace(name)).topics.record(name, PolicyScope.LOCAL)
            assert before.policies.retention.minutes == 600
            await broker.done("POST", f"{base}/maxProducers", 3)
            after = (await broker.cluster.policies.of_namespace(name)).topics.record(name, PolicyScope.LOCAL)
            assert {**after.fields} == {**before.fields, "maxProducerPerTopic": 3}
            assert len(await broker.broker.schemas.versions(TopicName("public", "kept", "__change_events"))) == 1

    run(main())


def test_another_broker_sends_a_change_to_the_one_that_serves_the_events(broker_url, own_topic):
    async def main():
        async with web_served(broker_url) as first, web_served(broker_url) as second:
            client = await first.connect()
            await client.producer(topic=own_topic)
            base = path_of(own_topic)
            await first.done("POST", f"{base}/maxProducers?authoritative=true", 5)
            answer = await second.ask("POST", f"{base}/maxProducers", 6)
            assert answer.status == 307
            assert f":{first.web_port}/" in answer.headers["location"]
            assert "toChangeEvents=true" in answer.headers["location"]
            status, reason = await second.refused("POST", f"{base}/maxProducers?toChangeEvents=true", 6)
            assert (status, "another broker serves" in reason) == (503, True)
            assert await second.get(f"{base}/maxProducers") == 5

    run(main())


def test_a_new_topic_has_no_policies_of_a_deleted_one(broker_url, own_topic):
    async def main():
        async with web_served(broker_url) as broker:
            base = path_of(own_topic)
            for partitions in ("", "/partitions"):
                await broker.done("PUT", f"{base}{partitions}", 2 if partitions else None)
                await broker.done("POST", f"{base}/retention", RETENTION)
                await broker.done("POST", f"{base}/maxProducers?isGlobal=true", 5)
                if partitions:
                    await broker.done("DELETE", f"{base}-partition-1")
                    assert await broker.get(f"{base}/retention") == RETENTION  # the others have it
                await broker.done("DELETE", f"{base}{partitions}")
                await broker.done("PUT", f"{base}{partitions}", 2 if partitions else None)
                assert await broker.get(f"{base}/retention") is None
                assert await broker.get(f"{base}/maxProducers?isGlobal=true") is None
                await broker.done("DELETE", f"{base}{partitions}")
            name = TopicName.parse(own_topic)
            found = (await broker.cluster.policies.of_namespace(name)).topics
            assert (found.record(name, PolicyScope.LOCAL), found.record(name, PolicyScope.GLOBAL)) == (None, None)

    run(main())


def test_the_broker_that_serves_the_events_removes_the_policies_of_a_topic_deleted_by_another(broker_url, own_topic):
    async def main():
        async with web_served(broker_url) as first, web_served(broker_url) as second:

            async def bundle(name):
                return await second.broker.owners.bundle(TopicName.parse(name))

            base = path_of(own_topic)
            taken = {await bundle(own_topic), await bundle(own_topic.removesuffix("/t") + "/__change_events")}
            await first.done("PUT", f"{base}?authoritative=true")
            await first.done("POST", f"{base}/retention?authoritative=true", RETENTION)
            number = 0
            while await bundle(other := f"{own_topic}{number}") in taken:
                number += 1
            await second.done("PUT", f"{path_of(other)}?authoritative=true")
            await first.done("POST", f"{path_of(other)}/retention?authoritative=true", RETENTION)
            assert second.broker.topics.find(TopicName.parse(other)) is not None
            await second.done("DELETE", path_of(other))
            await second.done("PUT", path_of(other))
            assert await second.get(f"{path_of(other)}/retention") is None
            assert await second.get(f"{base}/retention") == RETENTION
            assert (await second.ask("DELETE", f"{base}/policies")).status == 204
            assert await second.get(f"{base}/retention") is None

    run(main())


def test_policies_are_kept_over_restarts_although_no_subscription_holds_them(broker_url, own_topic):
    events = own_topic.removesuffix("/t") + "/__change_events"

    async def main():
        async with web_served(broker_url) as broker:
            await broker.done("PUT", path_of(own_topic))
            await broker.done("POST", f"{path_of(own_topic)}/retention", RETENTION)
        for _ in range(3):
            async with web_served(broker_url) as broker:
                await broker.done("POST", f"{path_of(events)}/trim")
        async with web_served(broker_url) as broker:
            assert await broker.get(f"{path_of(own_topic)}/retention") == RETENTION

    run(main())


def test_policies_that_a_deletion_left_which_was_cut_off_go_with_the_next_one(broker_url, own_topic):
    async def main():
        async with web_served(broker_url) as broker:
            await broker.done("PUT", path_of(own_topic))
            await broker.done("POST", f"{path_of(own_topic)}/retention", RETENTION)
            await broker.cluster.delete_topic(own_topic, take_over=True)
            assert (await broker.refused("DELETE", path_of(own_topic)))[0] == 404
            await broker.done("PUT", path_of(own_topic))
            assert await broker.get(f"{path_of(own_topic)}/retention") is None

    run(main())


async def compacted(topic):
    """Wait for the compaction that was begun."""
    while topic.compaction.status is CompactionStatus.RUNNING:
        await asyncio.sleep(0.005)
    assert topic.compaction.status is CompactionStatus.SUCCESS


def test_policies_whose_compacted_ledger_is_gone_are_read_again_once_the_topic_is_compacted(broker_url, own_topic):
    events = own_topic.removesuffix("/t") + "/__change_events"

    async def main():
        async with web_served(broker_url) as broker:
            await broker.done("PUT", path_of(own_topic))
            await broker.done("POST", f"{path_of(own_topic)}/retention", RETENTION)
            topic = topic_of(broker, events)
            await topic.compaction.start_if_due()
            await compacted(topic)
            lost = topic.managed_ledger.open_cursors["__compaction"].properties["CompactedTopicLedger"]
            await broker.cluster.bookkeeper.delete_ledger(lost)
        async with web_served(broker_url) as broker:
            status, why = await broker.refused("GET", f"{path_of(own_topic)}/retention")
            assert status == 500
            assert "have it compacted" in why
            await broker.done("PUT", f"{path_of(events)}/compaction")
            await compacted(topic_of(broker, events))
            assert await broker.get(f"{path_of(own_topic)}/retention") == RETENTION

    run(main())


def test_policies_are_kept_by_compaction_when_their_events_are_trimmed(broker_url, own_topic):
    events = own_topic.removesuffix("/t") + "/__change_events"

    async def main():
        async with web_served(broker_url) as broker:
            await broker.done("PUT", path_of(own_topic))
            await broker.done("POST", f"{path_of(own_topic)}/retention", RETENTION)
            topic = topic_of(broker, events)
            published = topic.managed_ledger.last_confirmed
            await topic.compaction.start_if_due()
            await compacted(topic)
            await topic.managed_ledger.roll_over()
            await broker.done("POST", f"{path_of(events)}/trim")
            assert topic.managed_ledger.ledger_list.first_position > published
        async with web_served(broker_url) as broker:
            assert await broker.get(f"{path_of(own_topic)}/retention") == RETENTION

    run(main())
