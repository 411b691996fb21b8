"""Where nodes belong, by their paths."""

import pytest

from mledger.snapshot.tables.node_kinds import NodeKind
from mledger.snapshot.tables.node_places import NOWHERE, NodePlace, place_at

TOPIC = "persistent://shop/eu/orders"
PARTITION = NodePlace("shop", "shop/eu", f"{TOPIC}-partition-3", "shop/eu/persistent/orders-partition-3", TOPIC)


@pytest.mark.parametrize(
    ("kind", "path", "place"),
    [
        (NodeKind.TOPIC, "/managed-ledgers/shop/eu/persistent/orders-partition-3", PARTITION),
        (NodeKind.CURSOR, "/managed-ledgers/shop/eu/persistent/orders-partition-3/billing", PARTITION),
        (
            NodeKind.PARTITIONED_TOPIC,
            "/admin/partitioned-topics/shop/eu/persistent/orders",
            NodePlace("shop", "shop/eu", TOPIC),
        ),
        (NodeKind.SCHEMA, "/schemas/shop/eu/orders", NodePlace("shop", "shop/eu", TOPIC)),
        (NodeKind.NAMESPACE, "/admin/policies/shop/eu", NodePlace("shop", "shop/eu")),
        (NodeKind.NAMESPACE, "/admin/policies/shop/old/eu", NodePlace("shop", "shop/old/eu")),
        (NodeKind.BUNDLE, "/namespace/shop/eu/0x00000000_0xffffffff", NodePlace("shop", "shop/eu")),
        (NodeKind.TENANT, "/admin/policies/shop", NodePlace("shop")),
        (NodeKind.BROKER, "/loadbalance/brokers/127.0.0.1:8080", NOWHERE),
        (NodeKind.LEDGER, "/ledgers/00/0000/L0001", NOWHERE),
        (NodeKind.TOPIC, "/managed-ledgers/shop/eu/persistent/%zz", NOWHERE),
        (None, "/shop", NOWHERE),
    ],
)
def test_a_node_belongs_where_its_path_says(kind, path, place):
    assert place_at(kind, path) == place
