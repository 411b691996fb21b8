"""What a namespace is created with is what Java reads."""

import pytest

from mledger.broker.admin_rest.namespaces.given_policies import plan_checked_policies
from mledger.broker.admin_rest.namespaces.policies_node import SHOWN
from mledger.broker.admin_rest.refusals import AdminRefusal


def test_what_pulsars_own_client_sends_is_stored():
    sent = {name: value for name, value in SHOWN.items() if name not in ("bundles", "replication_clusters")}
    assert plan_checked_policies(sent | {"persistence": None}) == sent


def test_what_older_clients_of_pulsar_send_is_stored():
    sent = {"schema_auto_update_compatibility_strategy": "Full", "message_ttl_in_seconds": 0, "properties": {"a": "b"}}
    assert plan_checked_policies(sent) == sent


def test_policies_are_stored_as_if_each_were_set_by_itself():
    rate = {"publishThrottlingRateInMsg": 1, "publishThrottlingRateInByte": 2}
    given = {
        "message_ttl_in_seconds": 5,
        "publishMaxMessageRate": {"here": rate},
        "auth_policies": {"namespace_auth": {"r": ["consume"]}, "destination_auth": {"t": {"r": ["produce"]}}},
        "backlog_quota_map": {"message_age": {"limitTime": 1, "policy": "producer_exception"}},
    }
    quota = {"limit": 0, "limitSize": 0, "limitTime": 1, "policy": "producer_exception"}
    assert plan_checked_policies(given) == given | {"backlog_quota_map": {"message_age": quota}}


@pytest.mark.parametrize(
    "given",
    [
        {"message_ttl_in_seconds": {}},
        {"retention_policies": "x"},
        {"publishMaxMessageRate": []},
        {"publishMaxMessageRate": {"here": {"publishThrottlingRateInMsg": 2**40}}},
        {"auth_policies": {"namespace_auth": {"r": "consume"}}},
        {"auth_policies": {"namespace_auth": {"r": ["everything"]}}},
        {"auth_policies": {"other": {}}},
        {"backlog_quota_map": {"other": {}}},
        {"deleted": True},
        {"properties": {"a": [1]}},
        {"schema_auto_update_compatibility_strategy": ["Full"]},
        {"entryFilters": {"entryFilterNames": "f"}},
        {"subscription_types_enabled": "Shared"},
    ],
)
def test_what_java_does_not_read_or_this_broker_does_not_set_is_refused(given):
    with pytest.raises(AdminRefusal) as caught:
        plan_checked_policies(given)
    assert caught.value.status == 400


def test_what_javas_clients_derive_from_the_clusters_is_not_stored():
    assert plan_checked_policies({"clusterThatCanDeleteNamespace": "standalone"}) == {}


def test_a_field_that_pulsar_does_not_know_is_left_out():
    assert plan_checked_policies({"adminRoles": ["r"], "deleted": False}) == {"deleted": False}
