"""Hashes divided among consumers: D2."""

import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.dispatch.consumer import ConsumerNotAssignable, DispatchConsumer
from mledger.broker.dispatch.keys.key_assignment import ConsistentHashing, RangeSplit, StickyRanges
from mledger.broker.dispatch.keys.key_hash import KeyRange
from mledger.broker.facts import KEY_HASHES

HASHES = range(0, KEY_HASHES, 97)


def consumer(name, *ranges):
    return DispatchConsumer(name, name, 0, [KeyRange(*each) for each in ranges])


def owners(assignment):
    return {hashed: assignment.owner(hashed) for hashed in HASHES}


def named(assignment):
    return [(each.start, each.end, owner.name) for each, owner in assignment.ranges()]


@pytest.mark.parametrize("kind", [ConsistentHashing, RangeSplit])
def test_a_consumer_alone_has_all_hashes(kind):
    assignment = kind()
    assert assignment.owner(1) is None
    alone = consumer("a")
    assignment.add(alone)
    assert set(owners(assignment).values()) == {alone}
    assert named(assignment) == [(0, 65_535, "a")]


def test_newcomers_halve_the_largest_range():
    assignment = RangeSplit()
    for name in ("a", "b", "c", "d"):
        assignment.add(consumer(name))
    assert named(assignment) == [
        (0, 16_384, "c"),
        (16_385, 32_768, "b"),
        (32_769, 49_152, "d"),
        (49_153, 65_535, "a"),
    ]


def test_a_range_whose_consumer_leaves_goes_to_the_next_one():
    assignment = RangeSplit()
    group = [consumer(name) for name in ("a", "b", "c")]
    for each in group:
        assignment.add(each)
    assignment.remove(group[2])
    assert named(assignment) == [(0, 32_768, "b"), (32_769, 65_535, "a")]
    assignment.remove(group[0])
    assert named(assignment) == [(0, 65_535, "b")]


def test_consumers_of_one_name_have_different_points():
    assignment = ConsistentHashing()
    twins = [consumer("a"), consumer("a")]
    for each in twins:
        assignment.add(each)
    counts = Counter(owners(assignment).values())
    assert set(counts) == set(twins)


def test_a_consumer_that_comes_back_under_its_name_gets_the_same_hashes():
    assignment = ConsistentHashing()
    for name in ("a", "b", "c"):
        assignment.add(consumer(name))
    before = named(assignment)
    old = next(owner for _, owner in assignment.ranges() if owner.name == "b")
    assignment.remove(old)
    assignment.add(consumer("b"))
    assert named(assignment) == before


def test_hashes_are_spread_over_consumers():
    assignment = ConsistentHashing()
    for number in range(5):
        assignment.add(consumer(f"consumer-{number}"))
    counts = Counter(owner.name for owner in owners(assignment).values())
    assert min(counts.values()) > len(HASHES) / 5 * 0.6


@pytest.mark.parametrize("kind", [ConsistentHashing, RangeSplit])
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=12))
def test_joining_and_leaving_moves_only_the_hashes_concerned(kind, steps):
    assignment, present = kind(), {}
    for joins, number in steps:
        before = owners(assignment)
        if joins and number not in present:
            present[number] = newcomer = consumer(f"c{number}")
            assignment.add(newcomer)
            assert all(now in (newcomer, before[hashed]) for hashed, now in owners(assignment).items())
        elif not joins and number in present:
            gone = present.pop(number)
            assignment.remove(gone)
            after = owners(assignment)
            if kind is ConsistentHashing:
                assert all(after[hashed] is before[hashed] or before[hashed] is gone for hashed in HASHES)
        assert set(owners(assignment).values()) <= ({*present.values()} or {None})
        spans = [each for each, _ in assignment.ranges()]
        assert sum(each.end - each.start + 1 for each in spans) == (65_536 if present else 0)
        for span, owner in assignment.ranges():
            assert assignment.owner(span.start) is owner is assignment.owner(span.end)


def test_sticky_consumers_have_the_ranges_they_ask_for():
    assignment = StickyRanges()
    a, b = consumer("a", (0, 99), (200, 299)), consumer("b", (100, 199))
    assignment.add(a)
    assignment.add(b)
    assert [assignment.owner(hashed) for hashed in (0, 99, 100, 199, 200, 299, 300)] == [a, a, b, b, a, a, None]
    assignment.remove(a)
    assert [assignment.owner(hashed) for hashed in (50, 150, 250)] == [None, b, None]


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ([], "gives no key ranges"),
        ([(5, 4)], "is not one"),
        ([(0, 65_536)], "is not one"),
        ([(-1, 4)], "is not one"),
        ([(90, 110)], "overlaps 100 to 200 of consumer 'a'"),
        ([(120, 130)], "overlaps 100 to 200 of consumer 'a'"),
        ([(50, 300)], "overlaps 100 to 200 of consumer 'a'"),
        ([(0, 10), (10, 20)], "overlaps 0 to 10 of consumer 'b'"),
    ],
)
def test_sticky_ranges_that_conflict_are_refused_and_change_nothing(ranges, message):
    assignment = StickyRanges()
    assignment.add(consumer("a", (100, 200)))
    before = named(assignment)
    with pytest.raises(ConsumerNotAssignable, match=message):
        assignment.add(consumer("b", *ranges))
    assert named(assignment) == before


def test_a_client_may_name_a_range_for_each_hash_without_much_work():
    assignment, began = StickyRanges(), time.process_time()
    assignment.add(consumer("a", *((each, each) for each in range(KEY_HASHES))))
    assert time.process_time() - began < 30  # some 0.2 s; compared with each other, they took 20 minutes
    assert len(assignment.ranges()) == KEY_HASHES
