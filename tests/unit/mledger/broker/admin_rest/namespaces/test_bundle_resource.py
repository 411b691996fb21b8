"""Where bundles are divided."""

import pytest

from mledger.broker.admin_rest.namespaces.bundle_resource import (
    AT_POSITIONS,
    BY_TOPICS,
    EVENLY,
    BundleRates,
    TopicWork,
    plan_positions,
    plan_positions_by_rates,
    plan_split,
)
from mledger.broker.admin_rest.refusals import AdminRefusal

LAST = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("algorithm", "bundle", "hashes", "wanted", "positions"),
    [
        (EVENLY, (0, 0x80000000), [], [], [0x40000000]),
        (EVENLY, (0x80000000, LAST), [], [], [0xBFFFFFFF]),
        (EVENLY, (4, 6), [], [], [5]),
        (EVENLY, (4, 5), [], [], []),
        (BY_TOPICS, (0, 100), [10, 90, 20, 30], [], [25]),
        (BY_TOPICS, (0, 100), [30, 10, 90], [], [20]),
        (BY_TOPICS, (0, 100), [10], [], []),
        (BY_TOPICS, (0, 100), [], [], []),
        (BY_TOPICS, (7, 100), [7, 7], [], []),
        (AT_POSITIONS, (10, 20), [], [15, 12, 15, 10, 20, -1, 2**63], [12, 15]),
    ],
)
def test_a_bundle_is_divided_as_pulsar_divides_it(algorithm, bundle, hashes, wanted, positions):
    assert plan_positions(algorithm, bundle, hashes, wanted) == positions


@pytest.mark.parametrize(
    ("loads", "positions"),
    [
        ([], []),
        ([(10, 500, 0)], []),
        ([(10, 500, 0), (20, 0, 0)], []),
        ([(10, 54, 0), (30, 55, 0)], []),  # within the tolerance
        ([(10, 55, 0), (30, 56, 0)], [21]),
        ([(10, 0, 600), (30, 0, 600)], [21]),
        ([(40, 10, 0), (10, 60, 0), (30, 30, 0), (60, 95, 0), (80, 5, 0)], [51]),
        ([(10, 500, 0), (12, 1, 0), (20, 1, 0)], [12]),
        ([(10, 90, 0), (20, 90, 0), (30, 90, 0)], [16, 26]),
        ([(10, 90, 0), (10, 90, 0), (98, 90, 0)], [11, 55]),
        ([(98, 90, 0), (98, 90, 0)], []),  # the bundle ends there
    ],
)
def test_no_part_has_more_to_do_than_it_may_but_by_a_single_topic(loads, positions):
    most = BundleRates(messages=100, size=1000, tolerance_percent=10)
    assert plan_positions_by_rates((0, 99), [TopicWork(*each) for each in loads], most) == positions


def test_the_others_stay_as_they_are():
    assert plan_split([0, 8, LAST], "0x00000000_0x00000008", [2, 4]) == [0, 2, 4, 8, LAST]


def test_a_bundle_that_was_split_meanwhile_is_not_split_again():
    with pytest.raises(AdminRefusal) as caught:
        plan_split([0, 4, 8, LAST], "0x00000000_0x00000008", [2])
    assert caught.value.status == 409


def test_a_namespace_has_so_many_bundles_at_most():
    with pytest.raises(AdminRefusal) as caught:
        plan_split([0, LAST], "0x00000000_0xffffffff", range(1, 10_001))
    assert caught.value.status == 412
    assert len(plan_split([0, LAST], "0x00000000_0xffffffff", range(1, 10_000))) == 10_001
