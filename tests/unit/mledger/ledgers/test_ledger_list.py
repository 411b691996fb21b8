"""The ledgers of a topic: rising ids (M1), opening a topic (M3), rollover (M4), positions by count and size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.config import MIB, ManagedLedgerConfig
from mledger.errors import InvalidLedgerList
from mledger.ledgers.ledger_list import (
    LedgerEnd,
    LedgerList,
    check_writable,
    ledgers_to_recover,
    plan_open,
    plan_rollover,
    rollover_reason,
)
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo
from tests.support.metadata.counted_id import CountedId

NOW = 5000


def closed(ledger_id: int, entries: int = 4, timestamp: int = 1) -> LedgerInfo:
    return LedgerInfo(ledger_id, entries, entries * 10, timestamp)


def topic(*infos: LedgerInfo, **fields) -> ManagedLedgerInfo:
    return ManagedLedgerInfo(infos, **fields)


def test_look_ups_between_ledgers_whose_ids_have_gaps():
    ledgers = LedgerList([closed(10), closed(20), LedgerInfo(30)], current=30, live_entries=2)
    assert (ledgers.next_id(5), ledgers.next_id(10), ledgers.next_id(25), ledgers.next_id(30)) == (10, 20, 30, None)
    assert (ledgers.previous_id(10), ledgers.previous_id(25), ledgers.previous_id(99)) == (None, 20, 30)
    assert 20 in ledgers
    assert 25 not in ledgers
    assert (ledgers.entries(20), ledgers.entries(25), ledgers.entries(30)) == (4, 0, 2)


def test_the_current_ledger_counts_its_live_entries():
    ledgers = LedgerList([closed(10), LedgerInfo(30)], current=30)
    assert (ledgers.total_entries, ledgers.last_position, ledgers.last_confirmed) == (
        4,
        Position(30, -1),
        Position(10, 3),
    )
    ledgers.set_live(3, 99)
    assert (ledgers.total_entries, ledgers.total_size) == (7, 139)
    assert ledgers.last_position == ledgers.last_confirmed == Position(30, 2)
    assert ledgers.infos[-1] == LedgerInfo(30)
    assert ledgers.live_infos[-1] == LedgerInfo(30, 3, 99)


def test_an_empty_list_ends_where_the_topic_was_terminated():
    assert LedgerList([]).last_confirmed == Position(-1, -1)
    gone = LedgerList([], terminated=Position(8, -1))
    assert gone.first_position == gone.last_position == gone.last_confirmed == Position(8, -1)


def test_ids_that_do_not_rise_are_refused():
    with pytest.raises(InvalidLedgerList, match="ledger 9 follows ledger 10"):
        LedgerList([closed(10), closed(9)])
    with pytest.raises(InvalidLedgerList, match="ledger 10 follows ledger 10"):
        plan_open(topic(closed(10), closed(10)), {10: LedgerEnd(4, 40)}, NOW)


def test_only_the_last_ledger_can_be_open():
    with pytest.raises(InvalidLedgerList, match="open for writing but not the last"):
        LedgerList([closed(10), closed(11)], current=10)


@given(counts=st.lists(st.integers(0, 4), max_size=8), live=st.integers(0, 3))
def test_counting_and_finding_entries_are_inverse(counts, live):
    infos = [closed(3 * index, count) for index, count in enumerate(counts)]
    ledgers = LedgerList([*infos, LedgerInfo(100)], current=100, live_entries=live)
    every = [Position(ledger, entry) for ledger in ledgers for entry in range(ledgers.entries(ledger))]
    assert [ledgers.entry_at(index) for index in range(ledgers.total_entries)] == every
    assert [ledgers.count_through(position) for position in every] == list(range(1, len(every) + 1))
    for ledger in range(-1, 102):
        for entry in (-1, 0, 2, 10**9):
            at = Position(ledger, entry)
            assert ledgers.count_through(at) == sum(position <= at for position in every)
            assert ledgers.exists(at) == (at in every)
    with pytest.raises(IndexError):
        ledgers.entry_at(len(every))


def test_open_recovers_the_last_ledger_and_writes_its_true_end():
    info = topic(closed(10), LedgerInfo(11))
    assert ledgers_to_recover(info) == (11,)
    plan = plan_open(info, {11: LedgerEnd(7, 70)}, NOW)
    assert plan.info(12).ledgers == (closed(10), LedgerInfo(11, 7, 70, NOW), LedgerInfo(12))
    assert (plan.create, plan.dropped, plan.above) == (True, (), 11)


def test_open_keeps_the_other_fields_of_the_last_ledger_s_record():
    last = LedgerInfo(11, properties=(("k", "v"),), unknown=b"\x3a\x00")
    plan = plan_open(topic(last, properties=(("p", "q"),)), {11: LedgerEnd(7, 70)}, NOW)
    assert plan.info(12).ledgers[0] == LedgerInfo(11, 7, 70, NOW, properties=(("k", "v"),), unknown=b"\x3a\x00")
    assert plan.info(12).properties == (("p", "q"),)


def test_open_keeps_the_recorded_close_time_of_a_closed_ledger():
    plan = plan_open(topic(closed(11, 7, timestamp=3)), {11: LedgerEnd(7, 70)}, NOW)
    assert plan.kept == (closed(11, 7, timestamp=3),)


def test_open_drops_an_empty_last_ledger():
    plan = plan_open(topic(closed(10), LedgerInfo(11)), {11: LedgerEnd(0, 0)}, NOW)
    assert plan.dropped == (LedgerInfo(11),)
    assert plan.info(12).ledgers == (closed(10), LedgerInfo(12))
    assert plan.warnings == ()


def test_open_drops_a_missing_last_ledger_with_a_warning():
    plan = plan_open(topic(closed(10), LedgerInfo(11)), {11: None}, NOW)
    assert (plan.missing, plan.dropped) == ((11,), ())
    assert plan.info(12).ledgers == (closed(10), LedgerInfo(12))
    assert plan.warnings == ("ledger 11 does not exist: dropped from the list",)


def test_open_reads_a_ledger_recorded_as_empty_before_it_drops_it():
    info = topic(closed(10), LedgerInfo(11), LedgerInfo(12), closed(13))
    assert ledgers_to_recover(info) == (11, 12, 13)
    plan = plan_open(info, {11: LedgerEnd(0, 0), 12: LedgerEnd(2, 20), 13: LedgerEnd(4, 40)}, NOW)
    assert [ledger.ledger_id for ledger in plan.kept] == [10, 12, 13]
    assert plan.dropped == (LedgerInfo(11),)
    assert plan.warnings == ("ledger 12 was recorded as empty but has 2 entries: kept",)


def test_a_terminated_topic_gets_no_new_ledger():
    plan = plan_open(topic(closed(10), terminated=Position(10, 3)), {10: LedgerEnd(4, 40)}, NOW)
    assert not plan.create
    assert plan.ledgers().last_position == Position(10, 3)


def test_a_new_topic_has_nothing_to_recover():
    plan = plan_open(ManagedLedgerInfo(), {}, NOW)
    assert (plan.above, plan.info(5).ledgers) == (None, (LedgerInfo(5),))
    assert plan.ledgers(5).current == 5


def test_a_new_ledger_whose_id_does_not_rise_is_never_written():
    plan = plan_open(topic(LedgerInfo(11)), {11: LedgerEnd(1, 1)}, NOW)
    with pytest.raises(InvalidLedgerList):
        plan.info(11)


def test_a_list_with_an_empty_ledger_before_the_last_is_never_written():
    with pytest.raises(InvalidLedgerList, match="ledger 10 has entries 0"):
        check_writable([LedgerInfo(10), LedgerInfo(11)])
    check_writable([closed(10), LedgerInfo(11)])


def test_rollover_closes_and_adds_in_one_record():
    plan = plan_rollover(topic(closed(10), LedgerInfo(11)), LedgerEnd(7, 70), NOW, 14)
    assert plan.info.ledgers == (closed(10), LedgerInfo(11, 7, 70, NOW), LedgerInfo(14))
    assert plan.dropped == ()
    assert plan.ledgers().current == 14


def test_rollover_of_a_ledger_that_stayed_empty_drops_it():
    plan = plan_rollover(topic(closed(10), LedgerInfo(11)), LedgerEnd(0, 0), NOW, 14)
    assert plan.info.ledgers == (closed(10), LedgerInfo(14))
    assert plan.dropped == (LedgerInfo(11),)


def test_closing_ends_the_list_with_the_closed_ledger():
    plan = plan_rollover(topic(LedgerInfo(11)), LedgerEnd(7, 70), NOW)
    assert plan.info.ledgers == (LedgerInfo(11, 7, 70, NOW),)
    assert plan.ledgers().current is None


CONFIG = ManagedLedgerConfig(
    max_entries_per_ledger=100,
    max_size_per_ledger_mb=1,
    minimum_rollover_time_ms=1000,
    maximum_rollover_time_ms=60_000,
)


@pytest.mark.parametrize(
    ("entries", "size", "age_ms", "reason"),
    [
        (99, MIB - 1, 59_999, None),
        (100, 0, 1000, "entries reached 100"),
        (100, 0, 999, None),
        (1, MIB, 1000, "size 1048576 reached 1 MiB"),
        (1, MIB, 999, None),
        (1, 1, 60_000, "age 60000 ms reached 60000 ms"),
        (0, 0, 10**9, None),
        (100, 0, -(10**9), "entries reached 100"),  # the clock was set back
        (99, MIB - 1, -(10**9), None),
    ],
)
def test_a_ledger_rolls_over_when_a_limit_is_passed_and_the_minimum_time_too(entries, size, age_ms, reason):
    assert rollover_reason(CONFIG, entries, size, age_ms) == reason


def test_limits_of_0_do_not_apply():
    config = ManagedLedgerConfig(max_size_per_ledger_mb=0, minimum_rollover_time_ms=0, maximum_rollover_time_ms=0)
    assert rollover_reason(config, 49_999, 2**60, 2**60) is None


def test_sizes_above_a_position_are_those_of_whole_ledgers_and_a_share_of_its_own():
    ledgers = LedgerList([LedgerInfo(3, 10, 1000, 1), LedgerInfo(5, 4, 100, 1)])
    places = ((1, 5), (3, -1), (3, 4), (3, 9), (4, 0), (5, 1), (5, 9), (6, 0))
    assert [ledgers.size_above(Position(*at)) for at in places] == [
        1100,
        1100,
        600,
        100,
        100,
        50,
        0,
        0,
    ]


def test_the_position_at_a_size_leaves_at_most_the_rest_above_it():
    ledgers = LedgerList([LedgerInfo(3, 10, 1000, 1), LedgerInfo(5, 4, 100, 1)])
    for size in range(1, 1101, 7):
        position = ledgers.position_at_size(size)
        assert ledgers.size_above(position) <= 1100 - size
        before = Position(position.ledger_id, position.entry_id - 1)
        assert ledgers.size_above(before) > 1100 - size


def test_many_ledgers_are_left_out_without_comparing_each_with_each():
    ids = [CountedId(number) for number in range(500)]
    ledgers = LedgerList([closed(each) for each in ids])
    CountedId.compared = 0
    assert ledgers.without(ids[:-1]).ids == (499,)
    assert CountedId.compared < 10 * len(ids)
