"""Which ledger holds the compacted topic: the last state of compaction's cursor decides, not its record."""

import pytest

from mledger.cursors.compaction import (
    COMPACTION,
    check_not_advanced,
    compacted_ledger,
    is_compaction,
    why_never_trimmed,
)
from mledger.cursors.persistence.ledger_state import CursorLedgerMissing, CursorLedgerUnavailable, StateFound
from mledger.errors import CursorRecoveryFailed, InvalidPosition
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import ManagedCursorInfo, PositionInfo

RECORD = ManagedCursorInfo(7, Position(3, 1), properties=(("CompactedTopicLedger", 35),))
STATE = PositionInfo(Position(3, 9), properties=(("CompactedTopicLedger", 49),))


def test_the_last_state_decides_and_not_the_older_record():
    assert compacted_ledger(RECORD, StateFound(STATE, Position(7, 3))) == 49
    assert compacted_ledger(RECORD, StateFound(PositionInfo(Position(3, 9)), Position(7, 3))) is None


def test_the_record_decides_if_no_cursor_ledger_is_named_or_it_is_lost():
    assert compacted_ledger(ManagedCursorInfo(-1, Position(3, 1), properties=RECORD.properties), None) == 35
    assert compacted_ledger(RECORD, CursorLedgerMissing(7)) == 35


def test_what_cannot_be_read_now_is_not_guessed():
    with pytest.raises(CursorRecoveryFailed, match="7"):
        compacted_ledger(RECORD, CursorLedgerUnavailable(7, "bookies are away"))


def test_the_cursor_of_compaction_is_known_by_its_name():
    assert is_compaction("/managed-ledgers/t/n/persistent/x/__compaction")
    assert not is_compaction("/managed-ledgers/t/n/persistent/x/compaction")


def test_a_number_below_zero_names_no_ledger():
    record = ManagedCursorInfo(-1, Position(3, 1), properties=(("CompactedTopicLedger", -5),))
    assert compacted_ledger(record, None) is None


def test_no_command_moves_the_cursor_past_what_was_compacted():
    check_not_advanced(Position(3, 9), Position(3, 9))
    check_not_advanced(Position(3, 9), Position(3, 1))
    with pytest.raises(InvalidPosition, match="run `pulsar-admin topics compact`"):
        check_not_advanced(Position(3, 9), Position(4, 0))


@pytest.mark.parametrize(
    "name",
    [
        "__change_events",
        "__change_events-partition-0",
        "__transaction_buffer_snapshot",
        "__transaction_buffer_snapshot_indexes",
        "__transaction_buffer_snapshot_segments",
    ],
)
def test_what_only_compaction_makes_unneeded_is_not_trimmed_before(name):
    topic = TopicName.parse(f"shop/eu/{name}")
    assert COMPACTION in why_never_trimmed(topic, {"reader"})
    assert why_never_trimmed(topic, {"reader", COMPACTION}) == ""


@pytest.mark.parametrize("name", ["orders", "__transaction_log_0", "orders-__transaction_pending_ack"])
def test_topics_with_cursors_of_their_own_are_trimmed(name):
    assert why_never_trimmed(TopicName.parse(f"shop/eu/{name}"), ()) == ""
