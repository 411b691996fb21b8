"""Which topics a scope admits."""

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
