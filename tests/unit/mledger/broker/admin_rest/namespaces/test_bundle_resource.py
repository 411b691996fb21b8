"""Where bundles are divided."""

import pytest

from mledger.broker.admin_rest.namespaces.bundle_resource import (
    AT_POSITIONS,
    BY_TOPICS,
    EVENLY,
    plan_positions,
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
