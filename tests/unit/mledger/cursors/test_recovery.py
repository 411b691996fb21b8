"""The recovery of a cursor by example: rules R1, R2, R3, R4, R5, R6, R7, R8 and R9, as the tests' names say."""

import inspect
import re

import pytest

from mledger.cursors import recovery
from mledger.cursors.persistence.ledger_state import (
    CursorLedgerEmpty,
    CursorLedgerMissing,
    CursorLedgerUnavailable,
    StateFound,
    StateUnreadable,
)
from mledger.cursors.recovery import plan_cursor_recovery, start_position
from mledger.errors import CursorRecoveryFailed, InvalidPosition
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import BatchDeletion, LedgerInfo, ManagedCursorInfo, PositionInfo
from tests.support.commands.documents import text_of

# 10 and 13 have five entries, 16 has three, and 19 was just created for writing
OPENED = LedgerList([LedgerInfo(10, 5), LedgerInfo(13, 5), LedgerInfo(16, 3), LedgerInfo(19)], current=19)
LOOKED_AT = LedgerList([LedgerInfo(10, 5), LedgerInfo(13, 5), LedgerInfo(16, 3)])
CURSOR_LEDGER = 70


def znode(mark_delete: tuple[int, int], cursors_ledger_id: int = -1, **fields) -> ManagedCursorInfo:
    return ManagedCursorInfo(cursors_ledger_id, Position(*mark_delete), **fields)


def found(mark_delete: tuple[int, int], unconfirmed: bool = False, **fields) -> StateFound:
    return StateFound(PositionInfo(Position(*mark_delete), **fields), Position(CURSOR_LEDGER, 8), unconfirmed)


def span(lower: tuple[int, int], upper: tuple[int, int]) -> PositionRange:
    return PositionRange(Position(*lower), Position(*upper))


def plan(record, finding=None, ledgers=OPENED, **options):
    return plan_cursor_recovery("sub", record, finding, ledgers, **options)


@pytest.mark.parametrize(
    ("start", "mark_delete", "backlog"),
    [("earliest", (10, -1), 13), ("latest", (16, 2), 0), (Position(13, 1), (13, 1), 6)],
)
def test_r1_a_cursor_without_znode_is_new_and_begins_where_asked(start, mark_delete, backlog):
    result = plan(None, start=start)
    assert (result.rule, result.source, result.mark_delete) == ("R1", "new cursor", Position(*mark_delete))
    assert result.backlog == backlog
    assert result.persist


def test_r1_a_place_that_is_none_is_refused_by_name():
    with pytest.raises(
        InvalidPosition, match="'newest' is not a place where a cursor begins: give earliest, latest or"
    ):
        start_position(OPENED, "newest")  # type: ignore[arg-type]


def test_r2_without_cursor_ledger_the_znode_is_the_state():
    record = znode(
        (10, 1),
        ranges=(span((13, 0), (13, 2)),),
        properties=(("a", 1),),
        cursor_properties=(("b", "c"),),
        batch_deletions=(BatchDeletion(Position(16, 0), (6,)),),
    )
    result = plan(record)
    assert (result.rule, result.rules, result.source, result.at) == ("R2", ("R2",), "znode", None)
    assert result.mark_delete == Position(10, 1)
    assert result.acks.describe_ranges() == "[(13:0..13:2]]"
    assert result.acks.batch_words(Position(16, 0)) == (6,)
    assert (result.properties, result.cursor_properties) == ((("a", 1),), (("b", "c"),))
    assert (result.read_position, result.backlog) == (Position(10, 2), 9)
    assert not result.persist
    assert result.old_cursor_ledger is None


def test_r3_the_last_entry_of_the_cursor_ledger_is_the_state_not_the_snapshot():
    record = znode((10, -1), CURSOR_LEDGER, properties=(("old", 1),), cursor_properties=(("b", "c"),))
    result = plan(record, found((13, 1), ranges=(span((13, 2), (13, 3)),), properties=(("new", 2),)))
    assert (result.rule, result.source) == ("R3", "entry 8 of cursor ledger 70")
    assert result.at == Position(CURSOR_LEDGER, 8)
    assert (result.mark_delete, result.acks.describe_ranges()) == (Position(13, 1), "[(13:2..13:3]]")
    assert (result.properties, result.cursor_properties) == ((("new", 2),), (("b", "c"),))
    assert not result.persist
    assert result.old_cursor_ledger == CURSOR_LEDGER


def test_r3_what_a_peek_could_not_prove_is_reported():
    result = plan(znode((10, -1), CURSOR_LEDGER), found((13, 1), unconfirmed=True))
    assert result.unconfirmed
    assert result.source == "entry 8 of cursor ledger 70, unconfirmed"


LOST = [
    CursorLedgerMissing(CURSOR_LEDGER),
    CursorLedgerEmpty(CURSOR_LEDGER),
    StateUnreadable(Position(CURSOR_LEDGER, 8), "it does not parse"),
]


@pytest.mark.parametrize("finding", LOST, ids=lambda finding: type(finding).__name__)
def test_r4_a_lost_state_falls_back_to_the_snapshot_and_keeps_both_kinds_of_properties(finding):
    record = znode((10, 3), CURSOR_LEDGER, properties=(("a", 1),), cursor_properties=(("b", "c"),))
    result = plan(record, finding)
    assert (result.rule, result.source, result.mark_delete) == ("R4", "snapshot in the znode", Position(10, 3))
    assert (result.properties, result.cursor_properties) == ((("a", 1),), (("b", "c"),))
    assert result.persist
    assert finding.describe() in result.warnings[0]


def test_r4_the_snapshot_is_not_used_below_the_first_ledger():
    result = plan(znode((7, 3), CURSOR_LEDGER), CursorLedgerMissing(CURSOR_LEDGER))
    assert result.mark_delete == Position(10, -1)


def test_r5_a_cursor_ledger_that_cannot_be_read_now_fails_and_never_falls_back():
    with pytest.raises(CursorRecoveryFailed, match="cursor sub: cursor ledger 70 cannot be read now: bookies away"):
        plan(znode((10, 3), CURSOR_LEDGER), CursorLedgerUnavailable(CURSOR_LEDGER, "bookies away"))


def test_r5_a_cursor_ledger_that_was_not_read_is_not_taken_for_lost():
    with pytest.raises(CursorRecoveryFailed, match="must be read first"):
        plan(znode((10, 3), CURSOR_LEDGER))


def test_r6_the_start_of_a_deleted_ledger_becomes_the_start_of_the_next():
    result = plan(znode((11, -1)))
    assert (result.rules, result.mark_delete, result.read_position) == (("R2", "R6"), Position(13, -1), Position(13, 0))
    assert result.persist


def test_an_entry_of_a_deleted_ledger_is_kept_as_the_position():
    result = plan(znode((11, 2)))
    assert (result.rules, result.mark_delete, result.read_position) == (("R2",), Position(11, 2), Position(13, 0))
    assert (result.backlog, result.persist) == (8, False)


def test_r7_a_position_past_the_end_is_moved_back_to_it():
    result = plan(znode((99, 4)))
    assert (result.rules, result.mark_delete, result.backlog) == (("R2", "R7"), Position(19, -1), 0)
    assert result.persist
    assert result.warnings == ("position 99:4 is past the end: moved back to 19:-1",)


def test_r7_skips_no_entry_that_was_appended_after_the_topic_was_opened():
    appended = LedgerList([LedgerInfo(16, 3), LedgerInfo(19)], current=19, live_entries=4)
    result = plan(znode((99, 4)), ledgers=appended)
    assert (result.mark_delete, result.backlog) == (Position(19, -1), 4)


def test_r7_without_a_new_ledger_the_end_is_the_last_entry():
    result = plan(znode((16, 30)), ledgers=LOOKED_AT)
    assert (result.mark_delete, result.read_position) == (Position(16, 2), Position(16, 3))


def test_r7_ranges_that_do_not_fit_the_ledgers_are_left_out_with_a_warning():
    ranges = (span((13, 3), (13, 1)), span((13, 3), (13, 9)), span((99, 0), (99, 1)))
    result = plan(znode((10, 1), ranges=ranges))
    assert result.acks.describe_ranges() == "[(13:3..13:4]]"
    assert len(result.warnings) == 3


def test_r8_the_read_position_is_the_next_place_with_an_entry():
    assert plan(znode((10, 4))).read_position == Position(13, 0)
    assert plan(znode((16, 2))).read_position == Position(19, 0)


def test_r9_a_cursor_leaves_a_consumed_ledger_for_the_next():
    result = plan(znode((10, 4)))
    assert (result.mark_delete, result.move_to) == (Position(10, 4), Position(13, -1))
    assert result.rules == ("R2", "R9")
    assert result.persist


def test_r9_the_documented_run_from_56_9_to_603():
    ledgers = LedgerList([LedgerInfo(56, 10, 673, 1), LedgerInfo(603)], current=603)
    result = plan(znode((56, -1), CURSOR_LEDGER), found((56, 9)), ledgers)
    assert (result.mark_delete, result.backlog, result.move_to) == (Position(56, 9), 0, Position(603, -1))
    assert result.read_position == Position(603, 0)


def test_r9_does_not_move_from_the_start_of_a_ledger_nor_from_the_last_one():
    assert plan(znode((13, -1))).move_to is None
    assert plan(znode((16, 2)), ledgers=LOOKED_AT).move_to is None


def test_a_topic_without_ledgers_keeps_its_cursor_s_position():
    terminated = LedgerList([], terminated=Position(40, -1))
    result = plan(znode((40, -1)), ledgers=terminated)
    assert (result.mark_delete, result.read_position, result.backlog) == (Position(40, -1), Position(40, 0), 0)


def test_an_unreadable_last_state_falls_back_to_the_one_before_and_its_ledger_is_kept():
    unreadable = StateUnreadable(Position(CURSOR_LEDGER, 26), "it does not parse")
    state = PositionInfo(Position(10, 1), properties=(("n", 1),))
    result = plan_cursor_recovery(
        "sub",
        ManagedCursorInfo(CURSOR_LEDGER, Position(10, -1)),
        StateFound(state, Position(CURSOR_LEDGER, 25), passed_over=unreadable),
        LedgerList([LedgerInfo(10, 5), LedgerInfo(19)], current=19),
    )
    assert (result.rule, result.mark_delete, result.properties) == ("R4", Position(10, 1), (("n", 1),))
    assert (result.persist, result.keeps_cursor_ledger) == (True, True)
    assert "it does not parse: fell back to 10:1 of entry" in result.warnings[0]
    assert result.warnings[0].endswith(f"cursor ledger {CURSOR_LEDGER} is kept")


def test_the_guide_of_operators_explains_each_rule_that_a_recovery_may_name():
    """Commands show one that says where the state is, and any of those that move the position after it."""
    guide = text_of("how-to/operators-guide.md")
    named = set(re.findall(r'"(R\d)"', inspect.getsource(recovery)))
    assert named == {*re.findall(r"\((R\d)[):]", guide), *re.findall(r"^\| (R\d) \|", guide, re.MULTILINE)} - {"R5"}
