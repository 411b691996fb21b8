"""Permissions in the policies of a namespace."""

import pytest

from mledger.broker.admin_rest.namespaces.permission_resource import checked_actions, plan_grant, plan_replication
from mledger.broker.admin_rest.refusals import AdminRefusal


def test_a_role_gets_actions_and_loses_them_beside_others():
    policies = {"auth_policies": {"namespace_auth": {"other": ["produce"]}}, "x": 1}
    granted = plan_grant(policies, ["namespace_auth"], "me", ["consume"])
    assert granted["auth_policies"]["namespace_auth"] == {"other": ["produce"], "me": ["consume"]}
    assert plan_grant(granted, ["namespace_auth"], "me", None) == policies
    assert policies["auth_policies"]["namespace_auth"] == {"other": ["produce"]}


def test_actions_are_those_of_pulsar():
    assert checked_actions(["produce", "consume", "produce"]) == ["produce", "consume"]
    with pytest.raises(AdminRefusal, match="there is no action nothing"):
        checked_actions(["nothing"])


@pytest.mark.parametrize(("wanted", "status"), [([], 412), (None, 412), (["there"], 403), ("here", 400)])
def test_a_namespace_is_in_this_brokers_cluster(wanted, status):
    assert plan_replication(["here"], ["here"]) == ["here"]
    with pytest.raises(AdminRefusal) as caught:
        plan_replication(wanted, ["here"])
    assert caught.value.status == status
