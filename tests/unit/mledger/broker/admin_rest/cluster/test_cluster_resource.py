"""Whether a cluster is in use."""

from mledger.broker.admin_rest.cluster.cluster_resource import plan_cluster, plan_in_use


def test_a_cluster_is_in_use_if_a_tenant_or_a_namespace_names_it():
    assert plan_in_use({"t": {"allowedClusters": ["a"]}}, [], "a")
    assert plan_in_use({"t": {}}, [{"replication_clusters": ["a"]}], "a")
    assert not plan_in_use({"t": {"allowedClusters": ["b"]}}, [{}], "a")


def test_a_field_that_pulsar_does_not_know_is_left_out():
    found = plan_cluster({"serviceUrl": "http://a:1", "listenerName": "l", "other": 1})
    assert "other" not in found
    assert (found["serviceUrl"], found["listenerName"]) == ("http://a:1", "l")
