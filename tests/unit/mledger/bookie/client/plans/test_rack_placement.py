"""Ensembles and replacements over racks, compared with every possible choice (Q1), for any topology and failures."""

import itertools
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mledger.bookie.client.plans.placement import plan_ensemble, plan_replacements, replace_members
from mledger.bookie.client.plans.topology import PlacementPolicy, Topology
from mledger.bookie.errors import NotEnoughBookies, NotEnoughRacks

RACKS = ("/r1", "/r2", "/r3", "/r4")
REGIONS = ("/east/r1", "/east/r2", "/west/r1", "/north/r1")


def topologies(racks=RACKS, **policy):
    """Up to seven bookies on up to four racks, some of them on no rack."""
    named = st.lists(st.sampled_from([*racks, None]), min_size=1, max_size=7)
    return named.map(
        lambda given: Topology(
            PlacementPolicy(**policy), {f"b{number}": rack for number, rack in enumerate(given) if rack}
        )
    ).flatmap(lambda topology: st.tuples(st.just(topology), st.integers(len(topology.racks), 7)))


def windows(ensemble, write_quorum):
    """The write sets of an ensemble."""
    size = len(ensemble)
    return [[ensemble[(at + step) % size] for step in range(write_quorum)] for at in range(size)]


def spans(ensemble, write_quorum, of):
    """How many racks, or regions, the write sets span in total."""
    return sum(
        len(set(map(of, window))) for window in {tuple(sorted(each)) for each in windows(ensemble, write_quorum)}
    )


def best(ensembles, write_quorum, topology):
    """The most that any of `ensembles` spans."""
    return max(
        (spans(each, write_quorum, topology.region_of), spans(each, write_quorum, topology.rack_of))
        for each in ensembles
    )


def reached(ensemble, write_quorum, topology):
    return spans(ensemble, write_quorum, topology.region_of), spans(ensemble, write_quorum, topology.rack_of)


@given(topologies(), st.integers(1, 4), st.integers(1, 4), st.integers())
def test_no_choice_of_bookies_spans_more_racks(drawn, size, quorum, seed):
    topology, count = drawn
    bookies, quorum = [f"b{number}" for number in range(count)], min(quorum, size)
    assume(count >= size)
    ensemble = plan_ensemble(size, bookies, (), random.Random(seed), write_quorum=quorum, topology=topology)
    assert len(set(ensemble)) == size
    assert reached(ensemble, quorum, topology) == best(itertools.permutations(bookies, size), quorum, topology)


@given(topologies(REGIONS, region_aware=True), st.integers(1, 4), st.integers(1, 4), st.integers())
def test_no_choice_of_bookies_spans_more_regions_or_then_racks(drawn, size, quorum, seed):
    topology, count = drawn
    bookies, quorum = [f"b{number}" for number in range(count)], min(quorum, size)
    assume(count >= size)
    ensemble = plan_ensemble(size, bookies, (), random.Random(seed), write_quorum=quorum, topology=topology)
    assert reached(ensemble, quorum, topology) == best(itertools.permutations(bookies, size), quorum, topology)


@given(
    topologies(),
    st.integers(2, 4),
    st.integers(1, 4),
    st.sets(st.integers(0, 3), min_size=1, max_size=2),
    st.integers(),
)
def test_no_replacement_spans_more_racks(drawn, size, quorum, failing, seed):
    topology, count = drawn
    bookies, quorum = [f"b{number}" for number in range(count)], min(quorum, size)
    failing = {index for index in failing if index < size}
    assume(failing and count >= size + len(failing))
    rng = random.Random(seed)
    ensemble = tuple(rng.sample(bookies, size))
    found = plan_replacements(ensemble, failing, bookies, (), rng, write_quorum=quorum, topology=topology)
    assert found.keys() == failing
    others = sorted(set(bookies) - set(ensemble))
    assert set(found.values()) <= set(others)
    choices = [
        replace_members(ensemble, dict(zip(sorted(failing), chosen, strict=True)))
        for chosen in itertools.permutations(others, len(failing))
    ]
    assert reached(replace_members(ensemble, found), quorum, topology) == best(choices, quorum, topology)


@given(topologies(enforce_min_racks=True), st.integers(1, 4), st.integers(1, 4), st.integers())
def test_enforced_racks_are_respected_or_nothing_is_chosen(drawn, size, quorum, seed):
    topology, count = drawn
    bookies, quorum = [f"b{number}" for number in range(count)], min(quorum, size)
    assume(count >= size)
    needed = min(2, quorum)

    def fits(ensemble):
        return all(len(set(map(topology.rack_of, window))) >= needed for window in windows(ensemble, quorum))

    on_racks = [bookie for bookie in bookies if bookie in topology.racks]
    possible = any(fits(each) for each in itertools.permutations(on_racks, size))
    try:
        ensemble = plan_ensemble(size, bookies, (), random.Random(seed), write_quorum=quorum, topology=topology)
    except NotEnoughRacks:
        assert not possible
    else:
        assert fits(ensemble)
        assert set(ensemble) <= set(on_racks)


def test_failed_bookies_are_taken_before_enforced_racks_are_given_up():
    topology = Topology(PlacementPolicy(enforce_min_racks=True), {"a": "/r1", "b": "/r1", "c": "/r2"})
    ensemble = plan_ensemble(2, "abc", "c", random.Random(1), write_quorum=2, topology=topology)
    assert "c" in ensemble


def test_an_enforced_replacement_on_the_wrong_rack_is_not_taken():
    topology = Topology(PlacementPolicy(enforce_min_racks=True), {"a": "/r1", "b": "/r2", "c": "/r1"})
    assert plan_replacements("ab", {1}, "ac", (), random.Random(1), write_quorum=2, topology=topology) == {}
    assert plan_replacements("ab", {0}, "bc", (), random.Random(1), write_quorum=2, topology=topology) == {0: "c"}


def test_the_error_counts_the_bookies_of_each_rack():
    topology = Topology(PlacementPolicy(enforce_min_racks=True), {"a": "/r1", "b": "/r1"})
    with pytest.raises(NotEnoughRacks, match=r"2 racks in each write quorum of 2; .* /r1 \(2\), and 1 have none"):
        plan_ensemble(2, "abc", (), random.Random(1), write_quorum=2, topology=topology)
    assert issubclass(NotEnoughRacks, NotEnoughBookies)


def test_every_bookie_is_chosen_as_often_as_its_rack_allows():
    topology = Topology(PlacementPolicy(), {f"b{number}": RACKS[number % 3] for number in range(9)})
    rng, counts = random.Random(5), dict.fromkeys(topology.racks, 0)
    for _ in range(900):
        for bookie in plan_ensemble(3, counts.copy(), (), rng, write_quorum=3, topology=topology):
            counts[bookie] += 1
    assert max(counts.values()) < 1.3 * min(counts.values())
