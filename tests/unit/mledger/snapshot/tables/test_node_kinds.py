"""The kind of a node, by its path."""

import pytest

from mledger.metastore.records.paths import LEDGERS
from mledger.snapshot.tables.node_kinds import NodeKind, cursor_of, kind_of


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/managed-ledgers/t/n/persistent/topic", NodeKind.TOPIC),
        ("/managed-ledgers/t/c/n/persistent/topic", NodeKind.TOPIC),
        ("/managed-ledgers/t/n/persistent/topic/cursor", NodeKind.CURSOR),
        ("/managed-ledgers/t/c/n/persistent/topic/cursor", NodeKind.CURSOR),
        ("/managed-ledgers/t/n/persistent/persistent/topic", NodeKind.CURSOR),
        ("/managed-ledgers/t/n/persistent", None),
        ("/managed-ledgers/t/n/persistent/topic/cursor/below", None),
        ("/managed-ledgers/t/n/non-persistent/topic", None),
        ("/managed-ledgers", None),
        ("/ledgers/00/0000/L0001", NodeKind.LEDGER),
        ("/ledgers/000/0000/0042/9496/L7296", NodeKind.LEDGER),
        ("/ledgers/00/0000/stray", NodeKind.LEDGER),
        ("/ledgers/L1", NodeKind.LEDGER),
        ("/ledgers/00/0000", None),
        ("/ledgers/idgen/ID-0000000001", None),
        ("/ledgers/cookies/b:1", NodeKind.COOKIE),
        ("/ledgers/available/b:1", NodeKind.BOOKIE),
        ("/ledgers/available/readonly", None),
        ("/ledgers/available/readonly/b:1", NodeKind.READ_ONLY_BOOKIE),
        ("/ledgers/underreplication/ledgers/0000/0000/0000/0001/urL0000000001", NodeKind.UNDERREPLICATED),
        ("/ledgers/underreplication/locks/urL0000000001", None),
        ("/ledgersother/00/0000/L0001", None),
        ("/admin/partitioned-topics/t/n/persistent/topic", NodeKind.PARTITIONED_TOPIC),
        ("/admin/partitioned-topics/t/c/n/non-persistent/topic", NodeKind.PARTITIONED_TOPIC),
        ("/admin/policies", None),
        ("/admin/policies/t", NodeKind.TENANT),
        ("/admin/policies/t/n", NodeKind.NAMESPACE),
        ("/admin/policies/t/c/n", NodeKind.NAMESPACE),
        ("/admin/policies/t/c/n/x", None),
        ("/admin/local-policies/t/n", None),
        ("/schemas/t/n", None),
        ("/schemas/t/n/topic", NodeKind.SCHEMA),
        ("/schemas/t/c/n/topic", None),
        ("/loadbalance/brokers", None),
        ("/loadbalance/brokers/h:8080", NodeKind.BROKER),
        ("/loadbalance/leader", None),
        ("/namespace/t/n", None),
        ("/namespace/t/n/0x00000000_0xffffffff", NodeKind.BUNDLE),
        ("/namespace/t/c/n/0x00000000_0xffffffff", NodeKind.BUNDLE),
        ("/namespace/t/n/other", None),
        ("/bookies", NodeKind.RACKS),
        ("/", None),
    ],
)
def test_the_path_tells_the_kind_of_a_node(path, kind):
    assert kind_of(path, LEDGERS) is kind


@pytest.mark.parametrize(
    ("node", "name"),
    [("plain", "plain"), ("a+b", "a b"), ("u%2Fv", "u/v"), ("a%20b", "a%20b"), ("u%2fv", "u%2fv"), ("bad%", "bad%")],
)
def test_only_a_name_that_is_encoded_as_pulsar_does_is_decoded(node, name):
    """Else two cursors of a topic would have one name: `a+b` and `a%20b` decode to the same."""
    assert cursor_of(f"/managed-ledgers/t/n/persistent/topic/{node}") == name
