"""A bookie is in one group of racks."""

import pytest

from mledger.broker.admin_rest.cluster.bookie_resource import plan_no_rack, plan_rack
from mledger.broker.admin_rest.refusals import AdminRefusal

RACK = {"rack": "/r1", "hostname": "h"}


def test_a_bookie_moves_to_its_new_group():
    groups = plan_rack({"old": {"b:1": {"rack": "/r0"}, "c:1": {}}}, "b:1", "new", RACK)
    assert groups == {"old": {"c:1": {}}, "new": {"b:1": RACK}}
    assert plan_no_rack(groups, "b:1") == {"old": {"c:1": {}}}


def test_a_bookie_without_a_rack_has_none_to_lose():
    with pytest.raises(AdminRefusal, match="not found: b:1"):
        plan_no_rack({"default": {}}, "b:1")
