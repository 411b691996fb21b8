"""Ledgers beside the cursor ledger that a restored cursor names: those that are gone are removed, with a note."""

from msgspec import structs

from mledger.admin.undo.undo_references import ledgers_beside, named_ledgers, plan_record, plan_state
from mledger.cursors.positions import EARLIEST
from mledger.metastore.records.codec import encode_managed_cursor_info, encode_managed_ledger_info
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import (
    COMPACTED_LEDGER,
    DELAYED_BUCKET,
    BatchDeletion,
    LedgerBits,
    LedgerInfo,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    PositionInfo,
)

CURSOR, COMPACTION = "/managed-ledgers/t/ns/persistent/topic/one", "/managed-ledgers/t/ns/persistent/topic/__compaction"
BUCKET = f"{DELAYED_BUCKET}_1_1"
RECORD = ManagedCursorInfo(
    7,
    Position(1, 0),
    properties=((COMPACTED_LEDGER, 8), ("other", 9)),
    cursor_properties=((BUCKET, "10"), (f"{BUCKET}_odd", "no number"), ("kept", "11")),
)
STATE = PositionInfo(Position(1, 0), properties=((COMPACTED_LEDGER, 12), ("other", 13)))


def test_record_and_state_name_the_compacted_ledger_and_buckets():
    assert ledgers_beside(COMPACTION, RECORD, None) == {8, 10}
    assert ledgers_beside(COMPACTION, RECORD, STATE) == {8, 10, 12}


def test_what_another_cursor_than_compactions_calls_compacted_is_a_clients_number_and_stays():
    assert ledgers_beside(CURSOR, RECORD, STATE) == {10}
    assert plan_record(CURSOR, RECORD, {10}) == (RECORD, "")
    assert plan_state(CURSOR, STATE, set()) == (STATE, "")


def test_a_cursor_names_its_cursor_ledger_and_a_topic_its_list():
    cursor = encode_managed_cursor_info(RECORD)
    topic = encode_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(1), LedgerInfo(2))))
    assert named_ledgers(cursor, CURSOR, topic=False) == {7, 10}
    assert named_ledgers(cursor, COMPACTION, topic=False) == {7, 8, 10}
    assert named_ledgers(topic, "/topic", topic=True) == {1, 2}


def test_an_unreadable_record_names_nothing():
    assert named_ledgers(b"\xff", "/topic", topic=True) == named_ledgers(b"\xff", "/cursor", topic=False) == set()


def test_existing_ledgers_stay_named_without_a_note():
    assert plan_record(COMPACTION, RECORD, {8, 10}) == (RECORD, "")
    assert plan_state(COMPACTION, STATE, {12}) == (STATE, "")


def test_a_record_is_restored_without_deleted_ledgers_and_the_note_names_them():
    record, note = plan_record(COMPACTION, RECORD, set())
    assert record.properties == (("other", 9),)
    assert record.cursor_properties == ((f"{BUCKET}_odd", "no number"), ("kept", "11"))
    assert record.cursors_ledger_id == RECORD.cursors_ledger_id
    assert note.endswith(f": {COMPACTED_LEDGER} 8, {BUCKET} 10")


def test_a_state_is_restored_without_a_deleted_ledger_and_the_note_names_it():
    state, note = plan_state(COMPACTION, STATE, set())
    assert state.properties == (("other", 13),)
    assert note.endswith(f": {COMPACTED_LEDGER} 12")


def test_compaction_begins_anew_where_its_ledger_is_gone():
    """From where its cursor stood, the next compaction would leave out what the topic still has before that."""
    hole, batch = PositionRange(Position(1, 4), Position(1, 6)), BatchDeletion(Position(1, 3), (1,))
    acked = structs.replace(RECORD, ranges=(hole,), batch_deletions=(batch,))
    record, _ = plan_record(COMPACTION, acked, {10})
    assert (record.mark_delete, record.ranges, record.batch_deletions) == (EARLIEST, (), ())
    full = structs.replace(STATE, ranges=(hole,), batch_deletions=(batch,), ledger_bits=(LedgerBits(1, (2,)),))
    state, _ = plan_state(COMPACTION, full, set())
    assert (state.position, state.ranges, state.batch_deletions, state.ledger_bits) == (EARLIEST, (), (), ())


def test_a_cursor_that_names_an_existing_compacted_ledger_stays_where_it_is():
    assert plan_record(COMPACTION, RECORD, {8})[0].mark_delete == RECORD.mark_delete
    assert plan_state(COMPACTION, STATE, {12}) == (STATE, "")
    assert plan_record(CURSOR, RECORD, set())[0].mark_delete == RECORD.mark_delete


def test_a_number_of_no_ledger_names_none_and_stays():
    hostile = ManagedCursorInfo(
        -1,
        Position(1, 0),
        properties=((COMPACTED_LEDGER, -5),),
        cursor_properties=((BUCKET, "9" * 5000), (f"{BUCKET}_", str(2**63))),
    )
    assert ledgers_beside(COMPACTION, hostile, None) == set()
    assert plan_record(COMPACTION, hostile, ()) == (hostile, "")
