"""Which broker serves a topic according to the brokers' nodes, which Pulsar 4.2 wrote."""

import json

import pytest

from mledger.ledgers.bundles import bundle_folders, came_to_serve, has_topic, serving, unseen
from mledger.metastore.records.paths import TopicName
from mledger.metastore.store import Node, Stat

TOPIC = TopicName.parse("persistent://public/default/t")  # the CRC-32 of its name is 0x823cd929
BROKERS = ("a:8080", "b:8080")
OWNED = {
    "nativeUrl": "pulsar://127.0.0.1:6650",
    "httpUrl": "http://127.0.0.1:8080",
    "disabled": False,
    "advertisedListeners": {},
}
CLASSIC = {
    "webServiceUrl": "http://127.0.0.1:8080",
    "pulsarServiceUrl": "pulsar://127.0.0.1:6650",
    "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
}
EXTENSIBLE = CLASSIC | {
    "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
}


def node(said, session=7):
    data = said if isinstance(said, bytes) else json.dumps(said).encode()
    return Node(data, Stat(0, 0, 0, 0, session))


def test_a_topics_bundle_is_found_by_the_hash_of_its_full_name():
    assert has_topic("0x80000000_0x90000000", TOPIC)
    assert not has_topic("0x70000000_0x80000000", TOPIC)
    assert has_topic("0x823cd929_0x90000000", TOPIC)
    assert not has_topic("0x80000000_0x823cd929", TOPIC)
    assert has_topic("0x00000000_0xffffffff", TOPIC)


def test_a_name_that_is_no_range_counts_for_every_topic():
    assert has_topic("all", TOPIC)


def test_the_broker_of_the_topics_bundle_is_named_with_its_address():
    owned = {
        "/namespace/public/default/0x70000000_0x80000000": node(OWNED, 8),
        "/namespace/public/default/0x80000000_0x90000000": node(OWNED),
    }
    found = serving(TOPIC, owned, {}, [])
    assert (found.path, found.session) == ("/namespace/public/default/0x80000000_0x90000000", 7)
    assert found.address == "pulsar://127.0.0.1:6650"
    assert "the Pulsar broker pulsar://127.0.0.1:6650 serves its bundle 0x80000000_0x90000000" in str(found)


@pytest.mark.parametrize("nodes", [{"0x70000000_0x80000000": node(OWNED)}, {"0x80000000_0x90000000": node(OWNED, 0)}])
def test_another_bundle_or_a_node_without_a_session_serves_nothing(nodes):
    assert serving(TOPIC, {f"/namespace/public/default/{name}": each for name, each in nodes.items()}, {}, []) is None


def test_a_bundle_whose_broker_cannot_be_read_still_counts_as_served():
    found = serving(TOPIC, {"/namespace/public/default/0x80000000_0x90000000": node(b"\xff")}, {}, [])
    assert "a Pulsar broker serves its bundle" in str(found)


@pytest.mark.parametrize(
    ("said", "broker"),
    [
        ({"state": "Owned", "dstBroker": "b:8080"}, "b:8080"),
        ({"state": "Releasing", "sourceBroker": "a:8080"}, "a:8080"),
        ({"state": "Splitting", "sourceBroker": "a:8080"}, "a:8080"),
        ({"state": "Free", "sourceBroker": "a:8080"}, None),
        ({"state": "Deleted"}, None),
        ({"state": "Owned", "dstBroker": "gone:8080"}, None),
    ],
)
def test_the_channel_of_the_extensible_load_manager_names_who_has_the_bundle(said, broker):
    channel = {"/service_unit_state/public/default/0x80000000_0x90000000": node(said, 0)}
    found = serving(TOPIC, {}, channel, BROKERS)
    assert (found is None) if broker is None else (broker in str(found))


def test_what_brokers_serve_is_known_unless_their_channel_is_a_topic():
    path = "/loadbalance/brokers/b:8080"
    assert unseen({path: node(CLASSIC)}, has_channel=False) is None
    assert unseen({path: node(EXTENSIBLE)}, has_channel=True) is None
    assert "b:8080 is live, and which bundles it serves cannot be seen" in str(
        unseen({path: node(EXTENSIBLE)}, has_channel=False)
    )
    assert unseen({path: node({})}, has_channel=True) is not None
    assert unseen({path: node(EXTENSIBLE, 0)}, has_channel=False) is None


def test_folders_of_bundles_in_both_forms_of_names():
    old = TopicName.parse("persistent://tenant/cluster/ns/topic")
    assert bundle_folders(old) == ("/namespace/tenant/cluster/ns", "/service_unit_state/tenant/cluster/ns")


def test_a_broker_begins_to_serve_when_its_node_is_new_or_another_s():
    path = "/namespace/public/default/0x80000000_0x90000000"
    one, other = (serving(TOPIC, {path: node(OWNED, session)}, {}, []) for session in (1, 2))
    assert came_to_serve(None, one)
    assert came_to_serve(one, other)
    assert not came_to_serve(one, one)
    assert not came_to_serve(one, None)


def test_bundles_and_brokers_of_this_program_s_session_are_not_another_s():
    path = "/namespace/public/default/0x80000000_0x90000000"
    assert serving(TOPIC, {path: node(OWNED, 7)}, {}, [], own_session=7) is None
    assert serving(TOPIC, {path: node(OWNED, 8)}, {}, [], own_session=7) is not None
    assert unseen({"/loadbalance/brokers/b:8080": node({}, 7)}, has_channel=False, own_session=7) is None


def test_the_bundles_of_an_mledger_broker_are_seen():
    said = {"pulsarServiceUrl": "pulsar://127.0.0.1:6650", "loadManagerClassName": "mledger"}
    assert unseen({"/loadbalance/brokers/b:6650": node(said)}, has_channel=False) is None
