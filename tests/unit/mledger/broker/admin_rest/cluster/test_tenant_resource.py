"""What is stored of a tenant."""

import pytest

from mledger.broker.admin_rest.cluster.tenant_resource import plan_tenant
from mledger.broker.admin_rest.refusals import AdminRefusal


def test_roles_and_clusters_are_stored_once_each():
    body = {"adminRoles": ["a", "a"], "allowedClusters": ["here"], "other": 1}
    assert plan_tenant(body, ["here"]) == {"adminRoles": ["a"], "allowedClusters": ["here"]}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (None, 412),
        ([1], 400),
        ({"adminRoles": [], "allowedClusters": []}, 412),
        ({"adminRoles": [], "allowedClusters": ["there"]}, 412),
        ({"adminRoles": [" a"], "allowedClusters": ["here"]}, 412),
        ({"adminRoles": "a", "allowedClusters": ["here"]}, 400),
    ],
)
def test_what_is_not_valid_is_refused_with_pulsars_status(body, status):
    with pytest.raises(AdminRefusal) as caught:
        plan_tenant(body, ["here"])
    assert caught.value.status == status
