"""Whose turn it is: D2."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.dispatch.consumer import DispatchConsumer
from mledger.broker.dispatch.round_robin import RoundRobin


def consumer(name, permits=1, priority=0):
    made = DispatchConsumer(name, name, priority)
    made.permits = permits
    return made


def turns(ready, count):
    names = []
    for _ in range(count):
        turn = ready.next()
        names.append(turn and turn[0].name)
        if turn:
            ready.turned(turn[0])
    return names


def test_consumers_of_a_level_take_turns_and_better_levels_come_first():
    ready = RoundRobin()
    low, *high = consumer("low", priority=3), consumer("a"), consumer("b")
    for each in (low, *high):
        ready.offer(each)
    assert turns(ready, 3) == ["a", "b", "a"]
    for each in high:
        each.permits = 0
    assert turns(ready, 2) == ["low", "low"]
    low.blocked = True
    assert turns(ready, 1) == [None]


def test_one_that_was_offered_twice_has_one_turn_a_round():
    ready = RoundRobin()
    a, b = consumer("a"), consumer("b")
    for each in (a, a, b, a):
        ready.offer(each)
    assert turns(ready, 4) == ["a", "b", "a", "b"]


def test_one_that_is_not_available_does_not_wait():
    ready = RoundRobin()
    ready.offer(consumer("a", permits=0))
    assert ready.next() is None
    assert ready.permits(10) == (0, False)


def test_one_that_is_gone_has_no_turn():
    ready = RoundRobin()
    a, b = consumer("a"), consumer("b")
    ready.offer(a)
    ready.offer(b)
    ready.remove(a)
    ready.remove(a)
    assert ready.next() == (b, True)


@given(st.lists(st.tuples(st.integers(-2, 20), st.booleans()), max_size=8), st.integers(1, 40))
def test_permits_are_counted_up_to_what_is_asked(group, most):
    ready = RoundRobin()
    for number, (permits, writable) in enumerate(group):
        made = consumer(str(number), permits)
        made.writable = writable
        ready.offer(made)
    total, one_writable = ready.permits(most)
    real = sum(permits if writable else 1 for permits, writable in group if permits > 0)
    assert min(total, most) == min(real, most)
    assert one_writable == any(writable and permits > 0 for permits, writable in group)
