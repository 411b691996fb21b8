"""Policies are shown with the level that sets them."""

from mledger.broker.console.policy_view import plan_policies
from mledger.config import ManagedLedgerConfig
from mledger.ledgers.retention import TopicPolicies, retention_in_force
from mledger.metastore.cluster.policies import Persistence, StoragePolicies
from mledger.metastore.cluster.service_policies import BacklogQuota, ServicePolicies, ThrottleRate


def test_the_nearest_level_counts():
    policies = TopicPolicies(
        topic=StoragePolicies(service=ServicePolicies(message_ttl_s=3600, deduplication=True)),
        namespace=StoragePolicies(
            persistence=Persistence(3, 2, 2),
            service=ServicePolicies(
                message_ttl_s=60, size_quota=BacklogQuota(limit_bytes=1000), publish_rate=ThrottleRate(10)
            ),
        ),
    )
    rows = plan_policies(policies, retention_in_force(policies, ManagedLedgerConfig()))
    found = {each.name: (each.value, each.origin) for each in rows}
    assert found["retention"] == ("consumed ledgers are deleted", "the default of the configuration")
    assert found["persistence"] == ("ensemble size 3, write quorum 2, ack quorum 2", "namespace")
    assert found["message ttl s"] == ("3,600", "topic")
    assert found["deduplication"] == ("true", "topic")
    assert found["size quota"] == ("1,000 bytes, producer_request_hold", "namespace")
    assert found["publish rate"] == ("10 messages in 1 s", "namespace")
