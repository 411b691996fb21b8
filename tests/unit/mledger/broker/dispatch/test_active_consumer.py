"""The choice of the active consumer: D2."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.dispatch.active_consumer import plan_active
from mledger.broker.dispatch.consumer import DispatchConsumer


def consumers(*names, priority=0):
    return [DispatchConsumer(name, name, priority) for name in names]


def test_nobody_is_active_without_consumers():
    assert plan_active([], "t") is None


def test_partitions_take_the_consumers_in_turn_by_name():
    given_order = consumers("c", "a", "b")
    assert [plan_active(given_order, "t", partition).name for partition in range(5)] == ["a", "b", "c", "a", "b"]


def test_only_the_best_priority_comes_into_question():
    mixed = [*consumers("a", priority=1), *consumers("b", "c", priority=0)]
    assert [plan_active(mixed, "t", partition).name for partition in range(3)] == ["b", "c", "b"]


@given(st.sets(st.text(min_size=1, max_size=8), min_size=2, max_size=6), st.data())
def test_the_choice_does_not_depend_on_the_order_of_subscribing(names, data):
    ordered = consumers(*sorted(names))
    shuffled = data.draw(st.permutations(ordered))
    topic = data.draw(st.text(max_size=20))
    assert plan_active(shuffled, topic) is plan_active(ordered, topic)


def test_topics_without_partitions_are_spread_over_the_consumers():
    group = consumers("a", "b", "c", "d")
    chosen = Counter(plan_active(group, f"persistent://public/default/t{n}").name for n in range(400))
    assert set(chosen) == {"a", "b", "c", "d"}
    assert min(chosen.values()) > 40


def test_a_consumer_that_leaves_changes_only_the_topics_it_had():
    group = consumers("a", "b", "c")
    for n in range(100):
        before = plan_active(group, f"t{n}")
        after = plan_active(group[:2], f"t{n}")
        assert after is before or before is group[2]
