"""Who is to own a bundle that nobody owns."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.lookup.broker_records import BrokerAddress, BrokerReport
from mledger.broker.lookup.owner_choice import plan_owner

NAMES = ("a", "b", "c")
BUNDLES = tuple(f"t/ns/{number}" for number in range(8))


def report(name, bundles=(), unnamed=0):
    return BrokerReport(BrokerAddress(name, f"pulsar://{name}"), frozenset(bundles), unnamed)


def chosen(reports, assigned=None, excluded=()):
    found = plan_owner(reports, assigned or {}, "t/ns/new", excluded)
    return None if found is None else found.name


def test_the_broker_with_the_fewest_bundles_is_chosen():
    assert chosen([report("a", BUNDLES[:2]), report("b", BUNDLES[2:3]), report("c", unnamed=3)]) == "b"


def test_of_equal_brokers_the_first_by_name_is_chosen():
    assert chosen([report("c"), report("a"), report("b")]) == "a"


def test_what_was_assigned_lately_counts_until_it_is_reported():
    assert chosen([report("a"), report("b")], {"t/ns/1": "a"}) == "b"
    assert chosen([report("a", ["t/ns/1"]), report("b", BUNDLES[2:4])], {"t/ns/1": "a"}) == "a"


def test_a_bundle_that_is_assigned_already_stays_with_its_broker_while_that_lives():
    assert chosen([report("a"), report("b", BUNDLES)], {"t/ns/new": "b"}) == "b"
    assert chosen([report("a")], {"t/ns/new": "b"}) == "a"


def test_without_a_broker_there_is_no_owner():
    assert chosen([]) is None
    assert chosen([report("a")], excluded=["a"]) is None


@given(
    st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from(BUNDLES)), min_size=1),
    st.dictionaries(st.sampled_from(BUNDLES), st.sampled_from(NAMES)),
    st.sets(st.sampled_from(NAMES)),
)
def test_nobody_with_fewer_bundles_is_passed_over(held, assigned, excluded):
    reports = [report(name, bundles) for name, bundles in held.items()]
    found = chosen(reports, assigned, excluded)
    able = {
        name: len(bundles | {bundle for bundle, other in assigned.items() if other == name})
        for name, bundles in held.items()
        if name not in excluded
    }
    assert (found is None) == (not able)
    if found is not None:
        assert found == min(able, key=lambda name: (able[name], name))


@given(st.integers(1, 3), st.integers(0, 24))
def test_bundles_assigned_one_after_the_other_are_shared_evenly(brokers, count):
    reports, assigned = [report(name) for name in NAMES[:brokers]], {}
    for number in range(count):
        found = plan_owner(reports, assigned, f"t/ns/{number}")
        assert found is not None
        assigned[f"t/ns/{number}"] = found.name
    shares = [list(assigned.values()).count(name) for name in NAMES[:brokers]]
    assert max(shares) - min(shares) <= 1
