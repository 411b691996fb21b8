"""The policies of a new namespace, and what is shown of them."""

import pytest

from mledger.broker.admin_rest.namespaces.policies_node import bundles_data, plan_new_policies, plan_shown
from mledger.broker.lookup.bundle_ranges import decode_boundaries, plan_boundaries
from mledger.metastore.errors import RecordError

FOUR = ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"]


def test_a_new_namespace_has_the_brokers_cluster_and_bundles():
    made = plan_new_policies({}, "here", 4)
    assert made == {"bundles": {"boundaries": FOUR, "numBundles": 4}, "replication_clusters": ["here"]}


def test_a_number_of_bundles_or_their_boundaries_may_be_given():
    assert plan_new_policies({"bundles": {"numBundles": 2}}, "here", 4)["bundles"]["numBundles"] == 2
    given = {"bundles": {"boundaries": ["0x00000000", "0x10000000", "0xffffffff"]}}
    assert plan_new_policies(given, "here", 4)["bundles"] == given["bundles"] | {"numBundles": 2}


@pytest.mark.parametrize(
    "boundaries", [["x"], ["0x00000005", "0x00000001"], ["0x00000000", "0x10000000"], ["0x00000000", None]]
)
def test_boundaries_that_are_not_those_of_all_hashes_are_refused(boundaries):
    with pytest.raises(RecordError, match="the bundles of the namespace of the request"):
        plan_new_policies({"bundles": {"boundaries": boundaries}}, "here", 4)


def test_pulsars_defaults_are_shown_and_what_is_stored_wins():
    shown = plan_shown({"deduplicationEnabled": True, "persistence": None}, plan_boundaries(4), "here")
    assert shown["deduplicationEnabled"] is True
    assert "persistence" not in shown
    assert shown["bundles"] == {"boundaries": FOUR, "numBundles": 4}
    assert shown["auth_policies"] == {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}}
    assert (shown["replication_clusters"], shown["schema_compatibility_strategy"]) == (["here"], "UNDEFINED")


def test_bundles_are_written_as_brokers_read_them():
    import json

    data = json.dumps({"bundles": bundles_data(plan_boundaries(7))}).encode()
    assert decode_boundaries(data, "/x") == plan_boundaries(7)
