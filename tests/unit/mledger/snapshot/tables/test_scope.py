"""Which topics a scope admits."""

import pytest

from mledger.snapshot.tables.decoder import decode
from mledger.snapshot.tables.node_kinds import NodeKind
from mledger.snapshot.tables.node_places import NOWHERE, NodePlace
from mledger.snapshot.tables.records import FoundNode, UnreadableNode
from mledger.snapshot.tables.scope import parse_scope


def test_a_scope_is_narrowed_by_both():
    scope = parse_scope("t", None, None).narrowed(namespaces=frozenset(["t/a", "t/b"]))
    assert scope.admits_namespace("t/a")
    assert not scope.narrowed(tenants=frozenset(["u"])).admits_tenant("t")


def test_a_topic_is_admitted_with_its_partitions():
    scope = parse_scope(None, None, "persistent://t/n/x")
    wanted = [
        name
        for name in ("x", "x-partition-0", "x-partition-10", "y", "x-partition-y")
        if scope.admits_node("t/n/persistent", name)
    ]
    assert wanted == ["x", "x-partition-0", "x-partition-10"]


def test_a_place_is_admitted_by_the_names_that_it_has():
    topic = NodePlace("t", "t/n", "persistent://t/n/x")
    namespace, tenant = NodePlace("t", "t/n"), NodePlace("t")
    places = (topic, namespace, tenant, NOWHERE)

    def admitted(*names):
        return [place for place in places if parse_scope(*names).admits_place(place)]

    assert admitted(None, None, None) == [*places]
    assert admitted("t", None, None) == [topic, namespace, tenant]
    assert admitted(None, "t/n", None) == [topic, namespace]
    assert admitted(None, None, "persistent://t/n/x") == [topic]
    assert admitted("u", None, None) == []


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (NodeKind.PARTITIONED_TOPIC, "/admin/partitioned-topics/t/n/persistent/p"),
        (NodeKind.SCHEMA, "/schemas/t/n/p"),
        (NodeKind.BUNDLE, "/namespace/t/n/0x00000000_0xffffffff"),
        (NodeKind.TOPIC, "/managed-ledgers/t/n/persistent/p"),
    ],
)
def test_a_node_that_cannot_be_read_belongs_where_its_path_says(kind, path):
    item = decode(kind, FoundNode(path, b"\xff", 0, 0, 0, 0), "/ledgers")
    assert isinstance(item, UnreadableNode)
    assert [parse_scope(tenant, None, None).admits(item) for tenant in ("t", "u")] == [True, False]
