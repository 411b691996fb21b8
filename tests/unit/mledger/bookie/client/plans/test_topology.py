"""Racks, regions and isolation groups in Pulsar's mapping."""

import pytest

from mledger.bookie.client.plans.topology import (
    DEFAULT_RACK,
    IsolationGroups,
    PlacementPolicy,
    plan_isolated,
    plan_isolation,
    plan_topology,
)
from mledger.metastore.cluster.bookies import BookieRegistration
from mledger.metastore.records.bookie_affinity import UNGROUPED, BookieAffinityGroup

REGISTERED = [BookieRegistration("a:1", "a", 1), BookieRegistration("id-b", "b", 1), BookieRegistration("c:1", "c", 1)]


def racks(groups, **policy):
    topology = plan_topology(PlacementPolicy(**policy), groups, REGISTERED)
    return [topology.rack_of(found.bookie_id) for found in REGISTERED]


@pytest.mark.parametrize(
    ("written", "rack"), [("/r1", "/r1"), ("r1", "/r1"), (" /r1 ", "/r1"), ("/", DEFAULT_RACK), (None, DEFAULT_RACK)]
)
def test_a_rack_is_a_path_and_defaults_to_the_default_rack(written, rack):
    assert racks({"default": {"a:1": written}}) == [rack, DEFAULT_RACK, DEFAULT_RACK]


@pytest.mark.parametrize("name", ["id-b", "b:1", "b", "b:9999"])
def test_a_bookie_is_found_by_id_by_address_and_by_host(name):
    assert racks({"default": {name: "/r1"}}) == [DEFAULT_RACK, "/r1", DEFAULT_RACK]


def test_bookies_on_one_host_keep_racks_of_their_own():
    pair = [BookieRegistration("h:1", "h", 1), BookieRegistration("h:2", "h", 2)]
    topology = plan_topology(PlacementPolicy(), {"default": {"h:1": "/r1", "h:2": "/r2"}}, pair)
    assert [topology.rack_of("h:1"), topology.rack_of("h:2")] == ["/r1", "/r2"]


def test_without_rack_awareness_all_bookies_are_on_one_rack():
    assert len(set(racks({"default": {"a:1": "/r1", "c:1": "/r2"}}, rack_aware=False))) == 1


def test_a_region_is_the_first_part_of_a_rack():
    groups = {"default": {"a:1": "/east/r1", "c:1": "/r1"}}
    topology = plan_topology(PlacementPolicy(region_aware=True), groups, REGISTERED)
    assert [topology.region_of(found.bookie_id) for found in REGISTERED] == ["east", "default-region", ""]


GROUPS = {"gold": {"a:1": None, "b:1": None}, "silver": {"b:1": None, "c:1": None}, "bronze": {"d:1": None}}


@pytest.mark.parametrize(
    ("primary", "secondary", "size", "excluded"),
    [
        ((), ("silver",), 2, ""),
        (("gold",), (), 2, "cde"),
        (("gold",), ("silver",), 2, "cde"),
        (("gold",), ("silver",), 3, "de"),  # gold has two bookies
        (("gold",), ("silver",), 4, "d"),  # and both three: one in no group joins
        (("gold", "bronze"), (), 5, "c"),
        (("missing",), (), 2, "abcd"),
        (("*",), ("*",), 2, ""),
    ],
)
def test_bookies_of_other_groups_are_left_out_as_in_pulsar(primary, secondary, size, excluded):
    policy = PlacementPolicy(isolation_groups=frozenset(primary), secondary_isolation_groups=frozenset(secondary))
    found = plan_isolated(plan_isolation(policy, None), GROUPS, size, {"a:1", "b:1", "c:1", "d:1", "e:1"})
    assert found == {f"{name}:1" for name in excluded}


def test_a_ledger_that_asks_for_groups_is_placed_by_them_whatever_the_client_s_are():
    policy = PlacementPolicy(isolation_groups=frozenset({"gold"}))
    wanted = IsolationGroups(frozenset({"silver", "bronze"}), frozenset({"gold"}))
    assert plan_isolation(policy, BookieAffinityGroup("silver,bronze", "gold")) == wanted
    assert plan_isolation(PlacementPolicy(), None) is None


def test_of_a_namespace_without_groups_none_but_those_in_no_group_are_left():
    isolation = plan_isolation(PlacementPolicy(), UNGROUPED)
    assert plan_isolated(isolation, GROUPS, 2, {"a:1", "e:1"}) == {"a:1", "b:1", "c:1", "d:1"}
    assert plan_isolated(isolation, {}, 2, {"a:1", "e:1"}) == frozenset()


def test_a_registered_bookie_counts_for_its_group_and_one_that_is_gone_does_not():
    isolation = plan_isolation(PlacementPolicy(), BookieAffinityGroup("gold", "silver"))
    assert plan_isolated(isolation, GROUPS, 2, {"a:1", "c:1", "d:1", "e:1"}) == {"d:1", "e:1"}
