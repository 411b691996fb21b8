"""Which commands a role may send for which topics, by what is granted to it, as Pulsar's own provider says."""

import json
from typing import Any, NamedTuple

import pytest

from mledger.metastore.records.paths import NAMESPACE_POLICIES
from mledger.pb import PulsarApi_pb2 as pb
from mledger.pb.PulsarApi_pb2 import BaseCommand as Type
from tests.support.aio import run
from tests.support.brokers.served_broker import SECURED, credentials_of, served

PROXIED = (*SECURED, "proxyRoles=proxy")
NAMESPACE = "granted/ns"
STORED, UNSTORED = f"persistent://{NAMESPACE}/orders", f"non-persistent://{NAMESPACE}/orders"
PARTITION, OTHER = f"{STORED}-partition-0", f"persistent://{NAMESPACE}/other"
EVENTS, ELSEWHERE = f"persistent://{NAMESPACE}/__change_events", "persistent://granted/elsewhere/orders"
TOPICS = (STORED, UNSTORED, PARTITION, OTHER, EVENTS, ELSEWHERE)
SCHEMA = pb.Schema(name="s", type=pb.Schema.String, schema_data=b"")
BOTH, PRODUCE, CONSUME = (
    frozenset({"lookup", "produce", "consume"}),
    frozenset({"lookup", "produce"}),
    frozenset({"lookup", "consume"}),
)
NOTHING: frozenset[str] = frozenset()


class Granted(NamedTuple):
    """What is granted in the namespace and for topics, and what then may be done with each topic."""

    namespace: dict[str, list[str]]
    topics: dict[str, dict[str, list[str]]]
    allowed: dict[str, frozenset[str]]
    fields: dict[str, Any]


def of(what, *topics):
    return dict.fromkeys(topics, what)


APP = credentials_of("app")
GRANTS = {
    "nothing": Granted({}, {}, {}, APP),
    "produce": Granted(
        {"app": ["produce"]},
        {},
        of(PRODUCE, STORED, UNSTORED, PARTITION, OTHER) | of(frozenset({"lookup"}), EVENTS),
        APP,
    ),
    "consume": Granted({"app": ["consume"]}, {}, of(CONSUME, STORED, UNSTORED, PARTITION, OTHER, EVENTS), APP),
    "a topic": Granted({}, {STORED: {"app": ["produce"]}}, of(PRODUCE, STORED, PARTITION), APP),
    "a partition": Granted({}, {PARTITION: {"app": ["consume"]}}, of(CONSUME, PARTITION), APP),
    "a topic that is not stored": Granted({}, {UNSTORED: {"app": ["consume"]}}, of(CONSUME, UNSTORED), APP),
    "policies": Granted({}, {EVENTS: {"app": ["produce"]}}, of(PRODUCE, EVENTS), APP),
    "to another": Granted({"other": ["produce", "consume"]}, {STORED: {"other": ["consume"]}}, {}, APP),
    "tenant": Granted({}, {}, of(BOTH, *TOPICS), credentials_of("owner")),
    "super user": Granted({}, {}, of(BOTH, *TOPICS), credentials_of("admin")),
    "proxy without right": Granted(
        {"app": ["produce"]}, {}, {}, credentials_of("proxy") | {"original_principal": "app"}
    ),
    "proxy": Granted(
        {"app": ["produce"], "proxy": ["produce", "consume"]},
        {},
        of(PRODUCE, STORED, UNSTORED, PARTITION, OTHER) | of(frozenset({"lookup"}), EVENTS),
        credentials_of("proxy") | {"original_principal": "app"},
    ),
    "client of a proxy without right": Granted(
        {"proxy": ["produce", "consume"]}, {}, {}, credentials_of("proxy") | {"original_principal": "app"}
    ),
}


async def set_policies(broker, granted):
    auth = {"namespace_auth": granted.namespace, "destination_auth": granted.topics}
    nodes = {
        "granted": {"adminRoles": ["owner"]},
        NAMESPACE: {"auth_policies": auth},
        "granted/elsewhere": {"auth_policies": {}},
    }
    store = broker.cluster.store
    for name, content in nodes.items():
        path, data = f"{NAMESPACE_POLICIES}/{name}", json.dumps(content).encode()
        (node,) = await store.get_many([path])
        if node is None:
            await store.create(path, data, parents=True)
        else:
            await store.put(path, data, node.version)


async def may(client, kind, field, **fields):
    """Whether the command is not refused for want of a right."""
    client.send(kind, field, request_id=client.next_request(), **fields)
    command, _ = await client.receive()
    while command.HasField("active_consumer_change"):
        command, _ = await client.receive()
    ((_, answer),) = ((each, value) for each, value in command.ListFields() if each.name != "type")
    codes = [value for each, value in answer.ListFields() if each.name in ("error", "error_code")]
    return codes != [pb.AuthorizationError]


async def done_with(client, topic, number):
    """What the client may do with a topic, and whether all commands of one right agree."""
    commands = {
        "lookup": [
            (Type.LOOKUP, "lookupTopic", {}),
            (Type.PARTITIONED_METADATA, "partitionMetadata", {}),
            (Type.GET_SCHEMA, "getSchema", {}),
        ],
        "produce": [
            (Type.GET_OR_CREATE_SCHEMA, "getOrCreateSchema", {"schema": SCHEMA}),
            (Type.PRODUCER, "producer", {"producer_id": number}),
        ],
        "consume": [
            (Type.SUBSCRIBE, "subscribe", {"subscription": "sub", "subType": "Shared", "consumer_id": number}),
        ],
    }
    found = set()
    for right, those in commands.items():
        answers = {await may(client, kind, field, topic=topic, **fields) for kind, field, fields in those}
        assert len(answers) == 1, (topic, right)
        found |= {right} if answers.pop() else set()
    return found


@pytest.mark.parametrize("granted", GRANTS.values(), ids=GRANTS)
def test_a_role_may_do_with_each_topic_what_is_granted_and_no_more(broker_url, granted):
    async def main():
        async with served(broker_url, *PROXIED) as broker:
            await set_policies(broker, granted)
            client = await broker.connect(**granted.fields)
            found = {topic: await done_with(client, topic, number) for number, topic in enumerate(TOPICS)}
            assert found == {topic: granted.allowed.get(topic, NOTHING) for topic in TOPICS}
            client.close()

    run(main())


@pytest.mark.parametrize(
    ("policies", "subscription", "allowed"),
    [
        ({}, "any", {"app", "team", "owner"}),
        ({"auth_policies": {"subscription_auth_roles": {"billing": ["team"]}}}, "any", {"app", "team", "owner"}),
        ({"auth_policies": {"subscription_auth_roles": {"billing": ["team"]}}}, "billing", {"team", "owner"}),
        ({"auth_policies": {"subscription_auth_roles": {"billing": []}}}, "billing", {"app", "team", "owner"}),
        ({"subscription_auth_mode": "Prefix"}, "team-1", {"team", "owner"}),
        ({"subscription_auth_mode": "Prefix"}, "any", {"owner"}),
    ],
)
def test_who_may_use_a_subscription_also_as_the_first_one_of_a_producer(broker_url, policies, subscription, allowed):
    grants = {"namespace_auth": {role: ["produce", "consume"] for role in ("app", "team")}}

    async def main():
        async with served(broker_url, *PROXIED) as broker:
            store, found = broker.cluster.store, set()
            await set_policies(broker, GRANTS["nothing"])
            content = {**policies, "auth_policies": {**grants, **policies.get("auth_policies", {})}}
            (node,) = await store.get_many([f"{NAMESPACE_POLICIES}/{NAMESPACE}"])
            await store.put(f"{NAMESPACE_POLICIES}/{NAMESPACE}", json.dumps(content).encode(), node.version)
            for role in ("app", "team", "owner"):
                client = await broker.connect(**credentials_of(role))
                fields = {"topic": OTHER, "producer_id": 1, "initial_subscription_name": subscription}
                produces = await may(client, Type.PRODUCER, "producer", **fields)
                fields = {"topic": OTHER, "subscription": subscription, "subType": "Shared", "consumer_id": 1}
                consumes = await may(client, Type.SUBSCRIBE, "subscribe", **fields)
                assert produces == consumes, role
                found |= {role} if consumes else set()
                client.close()
            assert found == allowed

    run(main())


def test_a_proxy_speaks_for_a_client_and_nobody_else_does(broker_url):
    shown = [
        (credentials_of("app") | {"original_principal": "admin"}, "error"),
        (credentials_of("proxy"), "error"),
        (credentials_of("proxy") | {"original_principal": "proxy"}, "error"),
        (credentials_of("proxy") | {"original_principal": "app"}, "connected"),
    ]

    async def main():
        async with served(broker_url, *PROXIED) as broker:
            for fields, answer in shown:
                client = await broker.open()
                client.send(Type.CONNECT, "connect", client_version="raw", protocol_version=21, **fields)
                await client.expect(answer)
                client.close()

    run(main())
