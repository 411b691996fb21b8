"""Every command of clients is authorized, or concerns only what its connection has opened already."""

import json

import pytest

from mledger.broker.connections.requests.handlers import HANDLERS
from mledger.broker.protocol.answers import TRANSACTION_COMMANDS
from mledger.metastore.records.paths import NAMESPACE_POLICIES
from mledger.pb import PulsarApi_pb2 as pb
from mledger.pb.PulsarApi_pb2 import BaseCommand as Type
from tests.support.aio import run
from tests.support.brokers.served_broker import SECURED, credentials_of, served

NAMESPACE = "guarded/ns"
TOPIC = f"persistent://{NAMESPACE}/orders"
HANDSHAKE = {Type.CONNECT, Type.AUTH_RESPONSE, Type.PING, Type.PONG}
OF_ITS_OWN = {
    Type.WATCH_TOPIC_LIST_CLOSE,
    Type.CLOSE_PRODUCER,
    Type.CLOSE_CONSUMER,
    Type.UNSUBSCRIBE,
    Type.SEEK,
    Type.ACK,
    Type.REDELIVER_UNACKNOWLEDGED_MESSAGES,
    Type.GET_LAST_MESSAGE_ID,
    Type.CONSUMER_STATS,
}
"""Commands that name a producer, consumer or watcher of their connection, for which its role was permitted."""
SCHEMA = pb.Schema(name="s", type=pb.Schema.String, schema_data=b"")
AUTHORIZED = {
    Type.PARTITIONED_METADATA: ("partitionMetadata", {"topic": TOPIC}),
    Type.LOOKUP: ("lookupTopic", {"topic": TOPIC}),
    Type.GET_TOPICS_OF_NAMESPACE: ("getTopicsOfNamespace", {"namespace": NAMESPACE}),
    Type.WATCH_TOPIC_LIST: (
        "watchTopicList",
        {"namespace": NAMESPACE, "topics_pattern": f"{NAMESPACE}/.*", "watcher_id": 1},
    ),
    Type.PRODUCER: ("producer", {"topic": TOPIC, "producer_id": 1}),
    Type.SUBSCRIBE: ("subscribe", {"topic": TOPIC, "subscription": "sub", "subType": "Exclusive", "consumer_id": 1}),
    Type.GET_SCHEMA: ("getSchema", {"topic": TOPIC}),
    Type.GET_OR_CREATE_SCHEMA: ("getOrCreateSchema", {"topic": TOPIC, "schema": SCHEMA}),
}
PRODUCE_ONLY, CONSUME_ONLY = {Type.PRODUCER, Type.GET_OR_CREATE_SCHEMA}, {Type.SUBSCRIBE}


async def refused(client, kind):
    """Whether the command is refused for want of a right."""
    field, fields = AUTHORIZED[kind]
    client.send(kind, field, request_id=client.next_request(), **fields)
    command, _ = await client.receive()
    ((_, answer),) = ((each, value) for each, value in command.ListFields() if each.name != "type")
    codes = [value for each, value in answer.ListFields() if each.name in ("error", "error_code")]
    return codes == [pb.AuthorizationError]


async def grant(broker, **roles):
    """Grant actions in the namespace."""
    path, store = f"{NAMESPACE_POLICIES}/{NAMESPACE}", broker.cluster.store
    data = json.dumps({"auth_policies": {"namespace_auth": roles}}).encode()
    (node,) = await store.get_many([path])
    if node is None:
        await store.create(path, data, parents=True)
    else:
        await store.put(path, data, node.version)


def test_every_command_is_in_one_of_these_tables():
    tables = [HANDSHAKE, OF_ITS_OWN, set(AUTHORIZED), set(TRANSACTION_COMMANDS)]
    assert set().union(*tables) == set(HANDLERS)
    assert sum(map(len, tables)) == len(HANDLERS)


def test_a_role_without_grants_may_do_nothing(broker_url):
    async def main():
        async with served(broker_url, *SECURED) as broker:
            await grant(broker)  # to nobody
            client = await broker.connect(**credentials_of("stranger"))
            for kind in AUTHORIZED:
                assert await refused(client, kind), Type.Type.Name(kind)
            assert not broker.broker.topics.open
            client.close()

    run(main())


@pytest.mark.parametrize(
    ("action", "forbidden"), [("produce", CONSUME_ONLY), ("consume", PRODUCE_ONLY)], ids=["produce", "consume"]
)
def test_a_role_may_do_what_is_granted_and_no_more(broker_url, action, forbidden):
    async def main():
        async with served(broker_url, *SECURED) as broker:
            await grant(broker, app=[action])
            admin = await broker.connect(**credentials_of("admin"))
            await admin.producer(topic=TOPIC)  # the topic is there
            client = await broker.connect(**credentials_of("app"))
            found = {kind for kind in AUTHORIZED if await refused(client, kind)}
            assert found == forbidden
            for each in (admin, client):
                each.close()

    run(main())


@pytest.mark.parametrize(
    ("kind", "field", "more"),
    [(Type.UNSUBSCRIBE, "unsubscribe", {}), (Type.SEEK, "seek", {"message_publish_time": 1})],
    ids=["unsubscribe", "seek"],
)
def test_a_consumer_that_lost_its_right_can_no_longer_change_its_subscription(broker_url, kind, field, more):
    async def main():
        async with served(broker_url, *SECURED) as broker:
            await grant(broker, app=["consume"])
            client = await broker.connect(**credentials_of("app"))
            await client.subscribe(topic=TOPIC)
            await grant(broker)  # to nobody
            answer = await client.request(kind, field, "error", consumer_id=0, **more)
            assert answer.error == pb.AuthorizationError
            client.close()

    run(main())
