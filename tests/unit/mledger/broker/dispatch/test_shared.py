"""Shared subscriptions: D1, D2, D3, D4, D7, D8, D9."""

import pytest
from msgspec.structs import replace

from mledger.broker.dispatch.rate_limiter import DispatchRateLimiter
from mledger.broker.dispatch.settings import DispatchSettings
from mledger.broker.dispatch.shared import SharedDispatcher
from mledger.broker.dispatch.waiting.delayed_bucket import (
    BucketLimits,
    SegmentSummary,
    StoredBucket,
    plan_segments,
)
from mledger.broker.dispatch.waiting.delayed_index import DelayedIndex
from mledger.broker.dispatch.waiting.position_set import PositionSet
from mledger.broker.facts import EntryFacts, MessageChunk
from mledger.metastore.records.position import Position
from tests.support.brokers.driven_dispatcher import LEDGER, DrivenDispatcher, at, entries, planned_seal

SETTINGS = DispatchSettings(max_round_robin_batch=2)


def driven(settings=SETTINGS, **options):
    return DrivenDispatcher(SharedDispatcher(settings, **options))


def test_consumers_take_turns_of_the_round_robin_batch():
    sub = driven()
    sub.consumer("a", permits=10)
    sub.consumer("b", permits=10)
    sub.publish(*[1] * 8)
    sub.pump()
    assert sub.by_consumer() == {"a": [0, 1, 4, 5], "b": [2, 3, 6, 7]}


def test_turns_go_on_where_the_last_read_ended():
    sub = driven()
    sub.consumer("a", permits=10)
    sub.consumer("b", permits=10)
    for _ in range(4):
        sub.publish(1)
        sub.pump()
    assert sub.by_consumer() == {"a": [0, 2], "b": [1, 3]}


def test_a_turn_is_counted_in_messages():
    sub = driven(replace(SETTINGS, max_round_robin_batch=5))
    sub.consumer("a", permits=100)
    sub.consumer("b", permits=100)
    sub.publish(2, 2, 2, 9, 1)
    sub.pump()
    assert sub.by_consumer() == {"a": [0, 1, 3], "b": [2, 4]}


def test_a_consumer_alone_gets_a_read_in_one_delivery():
    sub = driven()
    sub.consumer("a", permits=100)
    sub.publish(*[1] * 50)
    sub.begin_read()
    [delivery] = sub.end_read().deliveries
    assert (delivery.indexes, delivery.messages, delivery.redeliveries) == (range(50), 50, None)


def test_lower_priority_numbers_come_first_as_long_as_they_have_permits():
    sub = driven()
    sub.consumer("low", permits=10, priority=1)
    sub.consumer("high", permits=3, priority=0)
    sub.publish(*[1] * 5)
    sub.pump()
    assert sub.by_consumer() == {"high": [0, 1, 2], "low": [3, 4]}


def test_what_nobody_has_permits_for_is_replayed_in_order_before_new_entries():
    sub = driven()
    consumer = sub.consumer("a", permits=2)
    sub.publish(3, 3, 3)
    sub.begin_read()
    sub.end_read()
    assert consumer.permits == -1
    assert sub.dispatcher.replay_count == 1
    sub.dispatcher.flow(consumer, 10)
    assert entries(sub.pump()) == [1, 2]
    assert [read.positions for read in sub.reads[1:3]] == [at(1), None]


def test_entries_that_are_given_back_count_one_more_each_time():
    sub = driven()
    consumer = sub.consumer("a", permits=10)
    sub.publish(1, 1, 1)
    sub.pump()
    for _ in range(2):
        sub.dispatcher.redeliver(consumer, at(1))
        sub.pump()
    assert [(one.position.entry_id, one.redeliveries) for one in sub.sent] == [(0, 0), (1, 0), (2, 0), (1, 1), (1, 2)]


def test_what_a_consumer_held_goes_to_another_when_it_leaves():
    sub = driven()
    first = sub.consumer("a", permits=2)
    sub.publish(1, 1)
    sub.pump()
    sub.consumer("b", permits=10)
    sub.acknowledge(first, *at(0))
    sub.dispatcher.remove(first, 0)
    [again] = sub.pump()
    assert (again.consumer, again.position, again.redeliveries) == ("b", Position(7, 1), 1)


def test_what_the_last_consumer_held_goes_to_the_next_one_and_nothing_else_is_read_again():
    sub = driven()
    first = sub.consumer("a", permits=10)
    sub.publish(1, 1, 1)
    sub.pump()
    sub.acknowledge(first, *at(0, 2))
    sub.dispatcher.remove(first, 0)
    sub.publish(1)
    sub.consumer("b", permits=10)
    assert [(one.position.entry_id, one.redeliveries) for one in sub.pump()] == [(1, 1), (3, 0)]
    assert sum(read.rewind for read in sub.reads) == 1


def test_others_entries_are_not_given_back():
    sub = driven()
    sub.consumer("a", permits=1)
    sub.publish(1)
    sub.pump()
    other = sub.consumer("b", permits=10)
    sub.dispatcher.redeliver(other, at(0))
    assert sub.pump() == []


def test_an_entry_acknowledged_while_it_is_replayed_is_not_delivered():
    sub = driven()
    consumer = sub.consumer("a", permits=10)
    sub.publish(1, 1)
    sub.pump()
    sub.dispatcher.redeliver(consumer, None)
    sub.begin_read()
    sub.acknowledge(consumer, *at(0))
    assert [delivery.indexes for delivery in sub.end_read().deliveries] == [[1]]


def test_a_replay_of_entries_that_are_all_acknowledged_is_followed_by_the_next_read():
    sub = driven()
    consumer = sub.consumer("a", permits=10)
    sub.publish(1, 1)
    sub.pump()
    sub.dispatcher.redeliver(consumer, None)
    sub.acknowledged.update(at(0, 1))
    sub.publish(1)
    assert entries(sub.pump()) == [2]
    assert sub.dispatcher.replay_count == 0


def test_one_normal_and_one_replay_read_may_be_in_flight():
    sub = driven()
    consumer = sub.consumer("a", permits=10)
    sub.publish(1)
    sub.pump()
    normal = sub.begin_read()
    assert sub.begin_read() is None
    sub.dispatcher.redeliver(consumer, None)
    replay = sub.begin_read()
    assert (normal.positions, replay.positions) == (None, at(0))
    assert sub.begin_read() is None


def test_batches_count_by_the_messages_that_are_left():
    sub = driven(replace(SETTINGS, max_unacked_per_consumer=10))
    consumer = sub.consumer("a", permits=100)
    sub.publish(10, 1)
    sub.pump()
    assert (consumer.unacked, consumer.blocked) == (10, True)
    sub.dispatcher.acknowledged_part(consumer, Position(7, 0), 5)
    assert (consumer.unacked, consumer.blocked) == (5, False)
    sub.dispatcher.acknowledged_part(consumer, Position(7, 0), 5)
    assert consumer.unacked == 0


def test_acknowledgements_count_for_whoever_holds_the_entry():
    sub = driven()
    holder = sub.consumer("a", permits=1)
    sub.publish(1)
    sub.pump()
    other = sub.consumer("b")
    sub.acknowledge(other, *at(0))
    assert (holder.unacked, other.unacked) == (0, 0)


def test_everything_up_to_an_expired_position_is_let_go():
    sub = driven()
    consumer = sub.consumer("a", permits=10)
    sub.publish(1, 2, 3)
    sub.pump()
    sub.dispatcher.redeliver(consumer, at(0))
    sub.dispatcher.acknowledged_to(Position(7, 1))
    assert consumer.unacked == 3
    assert sub.dispatcher.replay_count == 0


def test_a_consumer_that_is_not_writable_gets_one_entry_until_it_is():
    sub = driven()
    slow = sub.consumer("a", permits=10)
    slow.writable = False
    sub.publish(*[1] * 3)
    assert entries(sub.pump()) == [0]
    sub.consumer("b", permits=10)
    assert {one.consumer for one in sub.pump()} == {"b"}
    slow.writable = True
    sub.publish(*[1] * 4)
    sub.pump()
    assert len(sub.by_consumer()["a"]) > 1


def test_delayed_entries_come_when_they_are_due_and_in_any_order():
    sub = driven(delayed=DelayedIndex(tick_ms=1, strict=True))
    sub.consumer("a", permits=10)
    sub.publish(EntryFacts(1, 1, 0, 300), EntryFacts(1, 1, 0, 100), EntryFacts(1, 1))
    assert entries(sub.pump()) == [2]
    assert sub.dispatcher.wake_at(0) == 100
    sub.now_ms = 100
    assert entries(sub.pump()) == [1]
    sub.now_ms = 300
    [last] = sub.pump()
    assert (last.position.entry_id, last.redeliveries) == (0, 0)


def test_delayed_entries_that_come_after_the_tick_has_changed_keep_to_the_new_one():
    sub = driven(delayed=DelayedIndex(tick_ms=1, strict=True))
    sub.consumer("a", permits=10)
    sub.publish(EntryFacts(1, 1, 0, 100))
    sub.pump()
    sub.dispatcher.configure(replace(sub.dispatcher.settings, delayed_tick_ms=500))
    sub.publish(EntryFacts(1, 1, 0, 200))
    sub.pump()
    sub.now_ms = 499
    assert entries(sub.pump()) == [0]
    sub.now_ms = 500
    assert entries(sub.pump()) == [1]


def test_a_rate_bounds_replays_too():
    sub = driven(limiters=[DispatchRateLimiter(messages=3)])
    consumer = sub.consumer("a", permits=100)
    sub.publish(*[1] * 3)
    sub.pump()
    sub.dispatcher.redeliver(consumer, None)
    assert sub.pump() == []
    sub.now_ms = 1_000
    assert entries(sub.pump()) == [0, 1, 2]


def test_a_rewind_forgets_what_was_held_and_drops_reads_in_flight():
    sub = driven()
    consumer = sub.consumer("a", permits=10)
    sub.publish(1, 1)
    sub.pump()
    sub.dispatcher.redeliver(consumer, at(0))
    sub.begin_read()
    sub.dispatcher.rewind()
    assert sub.end_read().deliveries == ()
    assert consumer.unacked == 0
    assert [(one.position.entry_id, one.redeliveries) for one in sub.pump()] == [(0, 0), (1, 0)]


def test_a_read_that_ends_after_the_last_consumer_left_is_replayed():
    sub = driven()
    consumer = sub.consumer("a", permits=10)
    sub.publish(1, 1)
    sub.begin_read()
    sub.dispatcher.remove(consumer, 0)
    assert sub.end_read().deliveries == []
    sub.consumer("b", permits=10)
    assert [(one.position.entry_id, one.redeliveries) for one in sub.pump()] == [(0, 0), (1, 0)]


def test_a_failed_replay_is_tried_again():
    sub = driven(replace(SETTINGS, failure_backoff_ms=10))
    consumer = sub.consumer("a", permits=10)
    sub.publish(1)
    sub.pump()
    sub.dispatcher.redeliver(consumer, None)
    sub.dispatcher.failed_read(sub.begin_read(), 0)
    assert sub.pump() == []
    sub.now_ms = 10
    assert entries(sub.pump()) == [0]


def test_a_replay_that_is_not_in_flight_is_an_error():
    sub = driven()
    consumer = sub.consumer("a", permits=10)
    sub.publish(1)
    sub.pump()
    sub.dispatcher.redeliver(consumer, None)
    read = sub.begin_read()
    sub.end_read()
    for end in (lambda: sub.dispatcher.dispatch(read, [], 0), lambda: sub.dispatcher.failed_read(read, 0)):
        with pytest.raises(ValueError, match="not in flight"):
            end()


def test_after_a_restart_only_what_is_behind_the_last_bucket_is_read():
    limits = BucketLimits(min_indexes=1)
    sub = driven(delayed=DelayedIndex(tick_ms=1, limits=limits))
    consumer = sub.consumer("a", permits=10)
    sub.publish(EntryFacts(1, 1, 0, 500), EntryFacts(1, 1), EntryFacts(1, 1, 0, 100), EntryFacts(1, 1))
    sub.pump()
    sub.acknowledge(consumer, *at(3))
    sub.dispatcher.delayed.have_read(Position(LEDGER + 1, 0))
    segments = plan_segments(planned_seal(sub.dispatcher.delayed), limits)
    bucket = StoredBucket(LEDGER, LEDGER, tuple(map(SegmentSummary.of, segments)))
    sub.publish(EntryFacts(1, 1))

    after = driven(delayed=DelayedIndex(tick_ms=1))
    after.facts, after.now_ms, after.read_position = sub.facts, 200, 4
    after.dispatcher.restore([bucket], PositionSet(at(0, 1, 2)), 200)
    after.dispatcher.delayed.load(bucket, 0, segments[0])
    after.consumer("b", permits=10)
    assert entries(after.pump()) == [1, 2, 4]
    after.now_ms = 500
    assert entries(after.pump()) == [0]


def chunks(of=3, uuid="u"):
    return [EntryFacts(1, 100, chunk=MessageChunk(uuid, number, number == of - 1)) for number in range(of)]


def test_the_chunks_of_a_message_go_to_one_consumer_among_other_messages():
    sub = driven()
    sub.consumer("a", permits=1)
    sub.consumer("b", permits=10)
    first, second = chunks(), chunks(uuid="v")
    sub.publish(*(chunk for pair in zip(first, second, strict=True) for chunk in pair), 1, 1)
    sub.pump()
    assert sub.by_consumer() == {"a": [0, 2, 4], "b": [1, 3, 5, 6, 7]}


def test_a_message_whose_consumer_leaves_between_its_chunks_goes_to_another_one_in_order():
    sub = driven()
    a, _ = sub.consumer("a", permits=1), sub.consumer("b", permits=10, priority=1)
    first, second, third = chunks()
    sub.publish(first)
    sub.pump()
    sub.publish(second, third)
    sub.begin_read()
    sub.dispatcher.remove(a, 0)
    sub.end_read()
    sub.pump()
    assert sub.by_consumer() == {"a": [0], "b": [0, 1, 2]}


def test_a_chunk_without_the_one_before_it_goes_to_whoever_has_a_turn():
    sub = driven()
    sub.consumer("a", permits=10)
    sub.publish(*chunks()[1:], 1)
    sub.pump()
    assert sorted(sub.by_consumer()["a"]) == [0, 1, 2]
