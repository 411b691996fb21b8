"""The choice of the active consumer: D2."""

from bisect import bisect_left
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.dispatch import active_consumer
from mledger.broker.dispatch.active_consumer import plan_active
from mledger.broker.dispatch.consumer import DispatchConsumer
from mledger.broker.dispatch.keys.key_hash import murmur3_32


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


def on_a_ring(ranked, topic):
    """Who follows the topic on a ring with a hundred points of each consumer, as Pulsar makes it."""
    ring = {murmur3_32(f"{each.name}{point}".encode()): each for each in ranked for point in range(100)}
    hashes = sorted(ring)
    return ring[hashes[bisect_left(hashes, murmur3_32(topic.encode())) % len(hashes)]]


@given(st.sets(st.text(max_size=8), min_size=2, max_size=20), st.text(max_size=20))
def test_the_consumer_that_follows_the_topic_on_the_ring_is_active(names, topic):
    ranked = consumers(*sorted(names))
    assert plan_active(ranked, topic) is on_a_ring(ranked, topic)


def test_consumers_that_come_and_go_are_hashed_once(monkeypatch):
    """A hundred that leave at once, as with their client, would hold the loop for seconds."""
    hashed = []

    def counted(data):
        hashed.append(data)
        return murmur3_32(data)

    monkeypatch.setattr(active_consumer, "murmur3_32", counted)
    group = consumers(*(f"hashed-once-{number}-" for number in range(30)))
    for count in (*range(2, 31), *range(29, 1, -1)):
        plan_active(group[:count], "t")
    assert max(Counter(each for each in hashed if each != b"t").values()) == 1
