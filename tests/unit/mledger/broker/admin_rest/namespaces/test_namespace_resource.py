"""What a namespace may be created with."""

import pytest

from mledger.broker.admin_rest.namespaces.namespace_resource import plan_given_policies
from mledger.broker.admin_rest.refusals import AdminRefusal


def test_nothing_given_is_this_cluster():
    assert plan_given_policies(None, "here", ["here"]) == {"replication_clusters": ["here"]}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("x", 400),
        ({"bundles": 4}, 400),
        ({"bundles": {"numBundles": -1}}, 412),
        ({"bundles": {"numBundles": 10**9}}, 412),
        ({"replication_clusters": ["there"]}, 403),
    ],
)
def test_what_cannot_be_is_refused(body, status):
    with pytest.raises(AdminRefusal) as caught:
        plan_given_policies(body, "here", ["here"])
    assert caught.value.status == status
