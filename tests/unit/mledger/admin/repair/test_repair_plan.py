"""What is wrong with a topic's records, and how `plan_repair` mends it."""

import pytest

from mledger.admin.references.ledger_facts import LedgerFacts
from mledger.admin.repair.ledger_mends import LISTED_AGAIN, PASSED, Wrong
from mledger.admin.repair.repair_plan import CursorFacts, RepairPlan, TopicFacts, plan_repair
from mledger.cursors.persistence.ledger_state import (
    CursorLedgerEmpty,
    CursorLedgerMissing,
    CursorLedgerUnavailable,
    StateFound,
    StateUnreadable,
)
from mledger.errors import InvalidLedgerList
from mledger.ledgers.ledger_list import LedgerEnd
from mledger.ledgers.orphans.pending_records import PendingRecord
from mledger.metastore.errors import RecordError
from mledger.metastore.records.ledger_metadata import LedgerState
from mledger.metastore.records.paths import deletion_path, kept_path, pending_path
from mledger.metastore.records.pb.MLDataFormats_pb2 import OffloadContext as OffloadMessage
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import (
    LedgerInfo,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    OffloadContext,
    PositionInfo,
)

NAME = "t/n/persistent/x"
NOW = 5000


def closed(entries: int, size: int | None = None) -> LedgerFacts:
    return LedgerFacts(LedgerState.CLOSED, LedgerEnd(entries, 10 * entries if size is None else size))


def opened(entries: int) -> LedgerFacts:
    return LedgerFacts(LedgerState.OPEN, LedgerEnd(entries, 10 * entries))


def info(*ledgers: tuple[int, int]) -> ManagedLedgerInfo:
    """Closed ledgers with these many entries, followed by the open ledger 90."""
    return ManagedLedgerInfo(
        (*(LedgerInfo(each, entries, 10 * entries, 7) for each, entries in ledgers), LedgerInfo(90))
    )


def cursor(record: ManagedCursorInfo | RecordError, finding=None) -> CursorFacts:
    return CursorFacts("c", "/p/c", 3, record, finding)


def plan(
    topic: ManagedLedgerInfo | None, ledgers, *cursors: CursorFacts, relist=False, gone_topics=False, **more
) -> RepairPlan:
    facts = TopicFacts(NAME, topic, 4, {90: opened(0)} | ledgers, cursors, **more)
    return plan_repair(facts, NOW, relist=relist, gone_topics=gone_topics)


def wrongs(found: RepairPlan) -> list[tuple[Wrong, int | None]]:
    return [(mend.wrong, mend.ledger_id) for mend in found.mends]


def test_a_sound_topic_needs_no_repair():
    sound = cursor(ManagedCursorInfo(-1, Position(5, 1)))
    found = plan(info((5, 3), (6, 2)), {5: closed(3), 6: closed(2), 90: opened(4)}, sound)
    assert not found.pending
    assert (found.info, found.cursors, found.delete, found.mends) == (None, (), (), ())


def test_a_lost_ledger_is_removed_from_the_list():
    found = plan(info((5, 3), (6, 2)), {5: closed(3), 6: None})
    assert found.info is not None
    assert [ledger.ledger_id for ledger in found.info.ledgers] == [5, 90]
    assert wrongs(found) == [(Wrong.LEDGER_LOST, 6)]
    assert found.delete == ()


def test_a_lost_last_ledger_is_removed_from_the_list():
    found = plan(info((5, 3)), {5: closed(3), 90: None})
    assert found.info is not None
    assert [ledger.ledger_id for ledger in found.info.ledgers] == [5]


def test_a_ledger_deleted_after_offload_is_not_lost():
    context = OffloadMessage(complete=True, bookkeeperDeleted=True).SerializeToString()
    topic = ManagedLedgerInfo((LedgerInfo(5, 3, 30, 7, offload=OffloadContext(context)), LedgerInfo(90)))
    assert not plan(topic, {5: None}).pending


def test_a_lost_ledger_with_a_copy_in_tiered_storage_stays_in_the_list():
    context = OffloadMessage(complete=True).SerializeToString()
    topic = ManagedLedgerInfo((LedgerInfo(5, 3, 30, 7, offload=OffloadContext(context)), LedgerInfo(90)))
    found = plan(topic, {5: None})
    assert found.info is None
    assert [(mend.wrong, mend.ledger_id, mend.mended) for mend in found.mends] == [(Wrong.LEDGER_LOST, 5, False)]


def test_wrong_counts_of_a_closed_ledger_are_corrected():
    found = plan(info((5, 3), (6, 2)), {5: closed(8, 99), 6: closed(2)})
    assert found.info is not None
    assert found.info.ledgers[0] == LedgerInfo(5, 8, 99, 7)
    assert wrongs(found) == [(Wrong.COUNTS, 5)]


def test_counts_of_the_open_ledger_are_left_to_the_next_opening():
    assert not plan(info((5, 3)), {5: closed(3), 90: opened(17)}).pending
    assert not plan(info((5, 3)), {5: closed(3), 90: closed(17)}).pending


def test_a_ledger_before_the_last_that_was_never_closed_is_recovered():
    topic = ManagedLedgerInfo((LedgerInfo(5), LedgerInfo(90)))
    found = plan(topic, {5: opened(4)})
    assert found.recover == ((5, LedgerEnd(4, 40)),)
    assert found.info is not None
    assert found.info.ledgers[0] == LedgerInfo(5, 4, 40, NOW)


def test_an_empty_ledger_before_the_last_is_dropped_and_deleted():
    found = plan(info((5, 3), (6, 0)), {5: closed(3), 6: closed(0)})
    assert found.info is not None
    assert [ledger.ledger_id for ledger in found.info.ledgers] == [5, 90]
    assert (found.delete, found.to_record) == ((6,), (6,))


@pytest.mark.parametrize("shown", [closed(0), opened(0), opened(1)])
def test_a_ledger_that_shows_less_than_was_acknowledged_is_neither_closed_so_nor_deleted(shown):
    found = plan(info((5, 3), (6, 2)), {5: closed(3), 6: shown}, cursor(ManagedCursorInfo(-1, Position(6, 1))))
    assert not found.pending
    assert wrongs(found) == [(Wrong.COUNTS, 6)]
    assert (found.info, found.recover, found.delete, found.cursors) == (None, (), (), ())


def test_a_list_whose_ids_do_not_rise_is_not_changed():
    with pytest.raises(InvalidLedgerList):
        plan(info((6, 3), (5, 2)), {5: closed(2), 6: closed(3)})


@pytest.mark.parametrize(
    ("finding", "drops"),
    [
        (CursorLedgerMissing(70), None),
        (CursorLedgerEmpty(70), 70),
        (StateUnreadable(Position(70, 3), "no state"), None),
    ],
)
def test_a_cursor_whose_ledger_is_lost_falls_back_to_its_snapshot(finding, drops):
    record = ManagedCursorInfo(
        70, Position(5, 1), properties=(("p", 1),), cursor_properties=(("q", "r"),), unknown=b"\xfa\x01\x00"
    )
    found = plan(info((5, 3)), {5: closed(3)}, cursor(record, finding))
    (mended,) = found.cursors
    assert mended.record == ManagedCursorInfo(
        -1,
        Position(5, 1),
        properties=(("p", 1),),
        cursor_properties=(("q", "r"),),
        last_active=NOW,
        unknown=b"\xfa\x01\x00",
    )
    assert (mended.version, mended.drops) == (3, drops)
    unreadable = isinstance(finding, StateUnreadable)
    assert mended.keeps == (70 if unreadable else None)
    assert wrongs(found) == [(Wrong.STATE_UNREADABLE if unreadable else Wrong.CURSOR_LEDGER_LOST, 70)]
    assert "mark-delete position: 5:1" in found.mends[0].text
    assert found.delete == (() if drops is None else (drops,))


def test_a_snapshot_below_the_first_ledger_is_raised_to_it():
    found = plan(info((5, 3)), {5: closed(3)}, cursor(ManagedCursorInfo(70, Position(2, 1)), CursorLedgerMissing(70)))
    assert found.cursors[0].record.mark_delete == Position(5, -1)


def test_what_cannot_be_read_now_is_left_unchanged():
    away = cursor(ManagedCursorInfo(70, Position(5, 1)), CursorLedgerUnavailable(70, "bookies away"))
    broken = cursor(RecordError("no record", "/p/c"))
    found = plan(info((5, 3)), {5: closed(3)}, away, broken)
    assert not found.pending
    assert wrongs(found) == [(Wrong.UNREADABLE, 70), (Wrong.UNREADABLE, None)]
    assert found.cursors == ()


def test_a_position_in_a_lost_ledger_moves_to_the_next():
    found = plan(
        info((5, 3), (6, 2), (7, 2)),
        {5: closed(3), 6: None, 7: closed(2)},
        cursor(ManagedCursorInfo(-1, Position(6, 0))),
    )
    assert found.cursors[0].record.mark_delete == Position(7, -1)
    assert wrongs(found) == [(Wrong.LEDGER_LOST, 6), (Wrong.POSITION, None)]


def test_a_position_in_a_trimmed_ledger_may_stay():
    assert not plan(info((5, 3)), {5: closed(3)}, cursor(ManagedCursorInfo(-1, Position(2, 9)))).pending


@pytest.mark.parametrize("ledgers", [(), ((5, 3),)])
@pytest.mark.parametrize("recorded_in", ["record", "cursor ledger"])
def test_a_position_before_an_empty_ledger_that_opening_dropped_may_stay(ledgers, recorded_in):
    """A restart of a broker leaves the cursors of an empty topic so, and cursors at the end of a consumed topic."""
    stood = Position(80, -1)
    facts = cursor(ManagedCursorInfo(-1, stood))
    if recorded_in == "cursor ledger":
        facts = cursor(ManagedCursorInfo(70, Position(2, 1)), StateFound(PositionInfo(stood), Position(70, 0)))
    found = plan(info(*ledgers), {5: closed(3), 90: opened(0)}, facts)
    assert (found.pending, found.mends) == (False, ())


def test_a_position_before_a_lost_ledger_moves_to_the_next():
    found = plan(
        info((5, 3), (6, 2), (7, 2)),
        {5: closed(3), 6: None, 7: closed(2)},
        cursor(ManagedCursorInfo(-1, Position(6, -1))),
    )
    assert found.cursors[0].record.mark_delete == Position(7, -1)


def test_a_position_past_the_end_moves_back_to_it():
    found = plan(info((5, 3)), {5: closed(3), 90: opened(4)}, cursor(ManagedCursorInfo(-1, Position(90, 17))))
    assert found.cursors[0].record.mark_delete == Position(90, 3)


def test_ranges_over_lost_ledgers_are_dropped_and_the_others_kept():
    ranges = tuple(PositionRange(Position(ledger, 0), Position(ledger, 1)) for ledger in (5, 6))
    state = PositionInfo(Position(5, -1), ranges=ranges)
    facts = cursor(ManagedCursorInfo(70, Position(5, -1)), StateFound(state, Position(70, 0)))
    found = plan(info((5, 3), (6, 2)), {5: closed(3), 6: None}, facts)
    (mended,) = found.cursors
    assert mended.record.ranges == ranges[:1]
    assert (mended.record.cursors_ledger_id, mended.drops, found.delete) == (-1, 70, (70,))


def test_a_state_too_large_for_the_record_is_left_to_opening():
    ranges = tuple(PositionRange(Position(5, at), Position(5, at + 1)) for at in range(0, 4000, 2))
    lost = PositionRange(Position(6, 0), Position(6, 1))
    state = PositionInfo(Position(5, -1), ranges=(*ranges, lost))
    facts = cursor(ManagedCursorInfo(70, Position(5, -1)), StateFound(state, Position(70, 0)))
    found = plan(info((5, 4001), (6, 2)), {5: closed(4001), 6: None}, facts)
    assert found.cursors == ()
    assert [mend.mended for mend in found.mends] == [True, False]


def test_orphans_are_recorded_and_deleted():
    found = plan(info((5, 3)), {5: closed(3)}, orphans=(44, 33))
    assert (found.delete, found.to_record) == ((33, 44), (33, 44))
    assert found.info is None


@pytest.mark.parametrize("listed", [info((5, 3), (7, 2)), ManagedLedgerInfo()])
def test_a_ledger_that_the_list_has_lost_stays_and_so_do_the_cursors(listed):
    stands = cursor(ManagedCursorInfo(-1, Position(6, 1)))
    facts = {5: closed(3), 7: closed(2)}
    found = plan(listed, facts, stands, orphans=(6, 8), written=frozenset({6}))
    assert [(each.wrong, each.ledger_id) for each in found.mends if not each.mended][-1] == (Wrong.UNLISTED, 6)
    assert (found.info, found.cursors, found.delete) == (None, (), (8,))


def test_a_ledger_that_the_list_has_lost_is_listed_again_where_its_id_says():
    stands = cursor(ManagedCursorInfo(-1, Position(6, 1)))
    facts = {5: closed(3), 6: closed(4), 7: closed(2)}
    found = plan(info((5, 3), (7, 2)), facts, stands, orphans=(6, 8), written=frozenset({6}), relist=True)
    assert [(each.ledger_id, each.entries) for each in found.info.ledgers] == [(5, 3), (6, 4), (7, 2), (90, 0)]
    assert found.info.ledgers[1].timestamp == NOW
    assert (found.cursors, found.delete) == ((), (8,))  # the cursor stands in it
    assert found.mends[0].text == LISTED_AGAIN


@pytest.mark.parametrize("cursors", [(), (cursor(ManagedCursorInfo(-1, Position(7, -1))),)], ids=["none", "past it"])
def test_the_plan_tells_that_a_ledger_that_no_cursor_needs_goes_once_it_is_listed_again(cursors):
    facts = {5: closed(3), 6: closed(4), 7: closed(2)}
    found = plan(info((5, 3), (7, 2)), facts, *cursors, orphans=(6,), written=frozenset({6}), relist=True)
    assert found.mends[0].text == PASSED


def test_an_open_ledger_that_the_list_has_lost_is_recovered_first_and_the_open_end_of_the_list_is_closed():
    listed = ManagedLedgerInfo((LedgerInfo(5, 3, 30, 1), LedgerInfo(6)))
    facts = {5: closed(3), 6: closed(4), 7: opened(2), 8: closed(1)}
    found = plan(listed, facts, orphans=(7, 8), written=frozenset({7, 8}), relist=True)
    assert [(each.ledger_id, each.entries) for each in found.info.ledgers] == [(5, 3), (6, 4), (7, 2), (8, 1)]
    assert found.recover == ((7, LedgerEnd(2, 20)),)


@pytest.mark.parametrize("relist", [False, True])
def test_a_ledger_that_is_kept_stays_where_the_list_begins_above_it_until_it_is_listed_again(relist):
    kept = (PendingRecord(kept_path(6), 6, NAME), PendingRecord(kept_path(5), 5, NAME))
    facts = {7: closed(2), 6: closed(9), 8: None}
    found = plan(info((7, 2), (8, 3)), facts, orphans=(5, 6), written=frozenset({6}), kept=kept, relist=relist)
    assert found.delete == (5,)  # it has no entries
    assert [each.ledger_id for each in found.info.ledgers] == ([6, 7, 90] if relist else [7, 90])
    assert [each.ledger_id for each in found.done_with] == ([6, 5] if relist else [5])
    assert [each.ledger_id for each in found.mends if not each.mended] == ([] if relist else [6])


def test_a_ledger_that_is_older_than_the_topics_record_stays_where_the_list_begins_above_it():
    older = {"written": frozenset({5, 6}), "before": frozenset({6})}
    found = plan(info((7, 2), (8, 3)), {7: closed(2), 5: closed(9), 6: closed(9), 8: None}, orphans=(5, 6), **older)
    assert (found.delete, [each.ledger_id for each in found.info.ledgers]) == ((5,), [7, 90])
    assert [(each.wrong, each.ledger_id) for each in found.mends if not each.mended] == [(Wrong.UNLISTED, 6)]


@pytest.mark.parametrize(
    ("terminated", "facts"), [(Position(6, 1), closed(2)), (None, None)], ids=["past the end", "not to be read"]
)
def test_none_is_listed_again_if_one_of_them_cannot_be(terminated, facts):
    listed = ManagedLedgerInfo((LedgerInfo(5, 3, 30, 1),), terminated=terminated)
    ledgers = {5: closed(3), 6: closed(2), 7: facts}
    found = plan(listed, ledgers, orphans=(6, 7), written=frozenset({6, 7}), relist=True)
    assert (found.info, found.delete, found.pending) == (None, (), False)
    assert [each.ledger_id for each in found.mends if each.wrong is Wrong.UNLISTED] == [6, 7]


def test_a_ledger_above_one_that_is_lost_stays_when_the_repair_is_run_again():
    found = plan(info((5, 3), (7, 2)), {5: None, 7: closed(2)}, orphans=(6,), written=frozenset({6}))
    assert not found.pending
    assert [(each.wrong, each.mended) for each in found.mends] == [(Wrong.LEDGER_LOST, False), (Wrong.UNLISTED, False)]


def test_a_ledger_that_was_trimmed_from_the_list_is_deleted_whatever_it_has():
    found = plan(info((5, 3)), {5: closed(3)}, orphans=(4,), written=frozenset({4}))
    assert found.delete == (4,)


def test_pending_and_deletion_records_are_finished():
    records = (
        PendingRecord(pending_path(5), 5, NAME),
        PendingRecord(pending_path(40), 40, NAME),
        PendingRecord(deletion_path(41), 41, NAME),
    )
    found = plan(info((5, 3)), {5: closed(3)}, records=records)
    assert found.delete == (40, 41)
    assert found.to_record == (40,)
    assert found.done_with == records[:2]


def test_a_record_is_left_while_a_cursor_cannot_be_read():
    records = (PendingRecord(deletion_path(41), 41, NAME),)
    found = plan(info((5, 3)), {5: closed(3)}, cursor(RecordError("no record", "/p/c")), records=records)
    assert (found.delete, found.pending) == ((), False)


STALE, COMPACTED = 35, 49
DURING_COMPACTION = tuple(PendingRecord(pending_path(each), each, NAME) for each in (STALE, COMPACTED))
STATE = PositionInfo(Position(5, 0))
COMPACTED_STATE = PositionInfo(Position(5, 2), properties=(("CompactedTopicLedger", COMPACTED),))


def compaction(finding, *, is_open: bool = False) -> CursorFacts:
    """The cursor of compaction, whose record is older than its cursor ledger 7."""
    record = ManagedCursorInfo(7, Position(5, 0), properties=(("CompactedTopicLedger", STALE),))
    return CursorFacts("__compaction", "/p/__compaction", 3, record, finding, is_open=is_open)


def test_the_compacted_ledger_that_the_last_state_names_stays_and_the_one_before_goes():
    found = plan(
        info((5, 3)),
        {5: closed(3)},
        compaction(StateFound(COMPACTED_STATE, Position(7, 1))),
        records=DURING_COMPACTION,
    )
    assert found.delete == (STALE,)
    assert found.done_with == DURING_COMPACTION


UNCERTAIN = [
    compaction(CursorLedgerUnavailable(7, "bookies are away")),
    compaction(StateUnreadable(Position(7, 1), "bad bytes")),
    compaction(StateFound(COMPACTED_STATE, Position(7, 1)), is_open=True),
    compaction(
        StateFound(
            PositionInfo(Position(5, 0)), Position(7, 0), passed_over=StateUnreadable(Position(7, 1), "bad bytes")
        )
    ),
]


@pytest.mark.parametrize("of_compaction", UNCERTAIN)
def test_no_compacted_ledger_goes_while_it_is_unknown_which_one_the_cursor_names(of_compaction):
    found = plan(info((5, 3)), {5: closed(3)}, of_compaction, records=DURING_COMPACTION)
    assert COMPACTED not in found.delete
    assert STALE not in found.delete
    assert found.done_with == ()  # an owner that goes on needs the record of the ledger that it will name no more


@pytest.mark.parametrize("of_compaction", UNCERTAIN)
def test_the_deletion_of_a_ledger_that_an_uncertain_state_may_name_no_more_is_still_recorded(of_compaction):
    records = (PendingRecord(deletion_path(STALE), STALE, NAME),)
    found = plan(info((5, 3)), {5: closed(3)}, of_compaction, records=records)
    assert (STALE in found.delete, found.done_with) == (False, ())


UNREADABLE = cursor(RecordError("no record", "/p/c"))


@pytest.mark.parametrize("uncertain", [UNREADABLE, *UNCERTAIN])
def test_the_pending_record_of_a_ledger_in_use_is_removed_whatever_a_cursor_may_name(uncertain):
    other = CursorFacts("other", "/p/other", 3, ManagedCursorInfo(8, Position(5, 0)), StateFound(STATE, Position(8, 0)))
    records = tuple(PendingRecord(pending_path(each), each, NAME) for each in (5, 8))
    found = plan(info((5, 3)), {5: closed(3)}, uncertain, other, records=records)
    assert found.done_with == records


def test_what_ends_a_creation_relies_on_the_record_of_compactions_cursor():
    record = ManagedCursorInfo(-1, Position(5, 0), properties=(("CompactedTopicLedger", STALE),))
    of_compaction = CursorFacts("__compaction", "/p/__compaction", 3, record)
    found = plan(info((5, 3)), {5: closed(3)}, of_compaction, records=DURING_COMPACTION)
    assert (found.delete, found.ends_creations) == ((COMPACTED,), True)
    assert found.relied_on == (("/p/__compaction", 3),)


def test_it_relies_on_a_record_of_compactions_cursor_that_is_mended_itself_too():
    record = ManagedCursorInfo(-1, Position(90, 9), properties=(("CompactedTopicLedger", STALE),))
    of_compaction = CursorFacts("__compaction", "/p/__compaction", 3, record)
    found = plan(info((5, 3)), {5: closed(3)}, of_compaction, records=DURING_COMPACTION)
    assert [each.path for each in found.cursors] == ["/p/__compaction"]
    assert found.relied_on == (("/p/__compaction", 3),)


def test_leftovers_of_a_deleted_topic_are_deleted():
    found = plan(None, {}, orphans=(44,), records=(PendingRecord(pending_path(45), 45, NAME),))
    assert (found.delete, found.version, found.info) == ((44, 45), None, None)


def test_ledgers_with_entries_of_a_topic_that_does_not_exist_stay_unless_it_is_said_that_it_was_deleted():
    facts = {"orphans": (43, 44), "written": frozenset({44})}
    found = plan(None, {}, **facts)
    assert [(each.wrong, each.ledger_id) for each in found.mends if not each.mended] == [(Wrong.UNLISTED, 44)]
    assert found.delete == (43,)
    assert plan(None, {}, **facts, gone_topics=True).delete == (43, 44)
