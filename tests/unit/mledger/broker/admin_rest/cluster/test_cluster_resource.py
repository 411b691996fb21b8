"""Whether a cluster is in use."""

from mledger.broker.admin_rest.cluster.cluster_resource import plan_in_use


def test_a_cluster_is_in_use_if_a_tenant_or_a_namespace_names_it():
    assert plan_in_use({"t": {"allowedClusters": ["a"]}}, [], "a")
    assert plan_in_use({"t": {}}, [{"replication_clusters": ["a"]}], "a")
    assert not plan_in_use({"t": {"allowedClusters": ["b"]}}, [{}], "a")
