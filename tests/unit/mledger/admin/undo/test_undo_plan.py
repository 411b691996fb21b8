"""What an undo decides, over plain values."""

from dataclasses import replace

import pytest
from msgspec import structs

from mledger.admin.undo import undo_plan
from mledger.admin.undo.restorations import UndoAction
from mledger.admin.undo.undo_file import ChangedRecord, NodeState, Outcome, SavedCursor, UndoFile
from mledger.admin.undo.undo_pieces import plan_pieces
from mledger.admin.undo.undo_plan import ledgers_to_delete, ledgers_to_look_for, paths_to_read, plan_undo
from mledger.errors import ShadowTopic, UndoConflict
from mledger.ledgers.ledger_list import LedgerEnd
from mledger.metastore.records.codec import (
    decode_managed_cursor_info,
    decode_managed_ledger_info,
    encode_managed_cursor_info,
    encode_managed_ledger_info,
    encode_position_info,
)
from mledger.metastore.records.ledger_codec import encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import deletion_path, kept_path, ledger_path, managed_ledger_path, pending_path
from mledger.metastore.records.pb.MLDataFormats_pb2 import OffloadContext as OffloadMessage
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import (
    DELAYED_BUCKET,
    BatchDeletion,
    LedgerInfo,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    OffloadContext,
    PositionInfo,
)
from mledger.metastore.store import Create, Delete, Put

NAME = "t/ns/persistent/topic"
TOPIC = f"/managed-ledgers/{NAME}"
CURSOR = f"{TOPIC}/one"

AT_7 = NodeState(b"", 7)


def file_of(*records: ChangedRecord, cursors=(), outcome=Outcome.DONE, managed_ledgers=(NAME,)) -> UndoFile:
    return UndoFile("test", "topic", 0, "zk://x", records, managed_ledgers, tuple(cursors), (), outcome)


def topic_at(version: int, *ledgers: LedgerInfo, **fields: object) -> NodeState:
    return NodeState(encode_managed_ledger_info(ManagedLedgerInfo(ledgers, **fields)), version)


def cursor_at(version: int, **fields: object) -> NodeState:
    return NodeState(encode_managed_cursor_info(ManagedCursorInfo(mark_delete=Position(1, 2), **fields)), version)


def in_ledger(cursor_ledger: int) -> NodeState:
    return cursor_at(1, cursors_ledger_id=cursor_ledger)


def plan(file: UndoFile, existing=(), topic: NodeState | None = AT_7, incomplete=False, recorded=(), **now):
    """The plan when every record is as the command left it, and the topic is at version 7."""
    current = {TOPIC: topic} | {record.path: record.after for record in file.records} | now
    return plan_undo(file, current, existing, recorded, incomplete=incomplete)


def operations(plan, cursor_ledgers=()):
    """The multi of a plan that fits one request."""
    (piece,) = plan_pieces(plan)
    return piece.operations(dict(cursor_ledgers))


OLD = (("a", "b"),)
A, B = LedgerInfo(1, 10, 100, 5), LedgerInfo(2, 20, 200, 6)
OPEN = LedgerInfo(3)


def test_a_changed_record_is_set_at_the_version_that_the_command_left() -> None:
    file = file_of(ChangedRecord("/x", NodeState(b"old", 4), NodeState(b"new", 5)), managed_ledgers=())
    found = plan_undo(file, {"/x": NodeState(b"new", 5)}, ())
    assert operations(found) == [Put("/x", b"old", 5)]


def test_a_topic_of_which_only_cursors_are_restored_is_written_unchanged_in_the_same_multi() -> None:
    found = plan(file_of(ChangedRecord(CURSOR, cursor_at(1), cursor_at(2, last_active=1))))
    assert operations(found) == [Put(CURSOR, cursor_at(1).data, 2), Put(TOPIC, b"", 7)]


def test_a_topic_that_is_written_is_not_checked_twice() -> None:
    before, after = topic_at(1, A), topic_at(2, A, properties=(("a", "b"),))
    found = plan(file_of(ChangedRecord(TOPIC, before, after)), {1}, after)
    assert operations(found) == [Put(TOPIC, before.data, 2)]


def test_parents_are_created_first_and_deleted_last() -> None:
    gone = file_of(ChangedRecord(CURSOR, cursor_at(1)), ChangedRecord(TOPIC, topic_at(3, A)))
    assert [each.path for each in operations(plan(gone, {1}, None))] == [TOPIC, CURSOR]
    made = file_of(ChangedRecord(TOPIC, None, topic_at(0, A)), ChangedRecord(CURSOR, None, cursor_at(0)))
    assert operations(plan(made, (), topic_at(0, A))) == [Delete(CURSOR, 0), Delete(TOPIC, 0)]


def test_a_ledger_recorded_for_deletion_is_listed_again_if_its_record_can_be_removed() -> None:
    file = file_of(ChangedRecord(TOPIC, topic_at(1, A, B), topic_at(2)), ChangedRecord(CURSOR, in_ledger(50), None))
    found = plan(file, {1, 2, 50}, topic_at(2), recorded={2, 50, 7})
    assert operations(found) == [
        Create(CURSOR, in_ledger(50).data),
        Put(TOPIC, topic_at(1, A, B).data, 2),
        Delete(deletion_path(2), 0),
        Delete(deletion_path(50), 0),
    ]
    assert [each.names_again for each in found.restorations] == [(1, 2), (50,)]


def test_records_of_ledgers_that_are_listed_anyway_are_left_to_a_replay() -> None:
    file = file_of(ChangedRecord(TOPIC, topic_at(1, A, B), topic_at(2, B)))
    assert operations(plan(file, {1, 2}, topic_at(2, B), recorded={2})) == [Put(TOPIC, topic_at(1, A, B).data, 2)]


def test_losses_of_a_deleted_topic_are_named() -> None:
    file = structs.replace(file_of(ChangedRecord(TOPIC, topic_at(1, A, B))), lost=("30 entries",))
    with pytest.raises(
        UndoConflict, match=rf"30 entries; of {TOPIC}, ledgers 2 \(20 entries\) are gone or being deleted"
    ):
        plan(file, {1}, None)


def test_a_deleted_record_starts_again_at_version_0() -> None:
    found = plan(file_of(ChangedRecord(CURSOR, cursor_at(9))))
    assert operations(found)[0] == Create(CURSOR, cursor_at(9).data)
    assert "version 0" in found.restorations[0].note


def test_the_ledgers_of_a_topic_that_was_not_there_are_recorded_for_deletion() -> None:
    made = topic_at(4, A, B, OPEN)
    file = file_of(ChangedRecord(TOPIC, None, made))
    assert ledgers_to_delete(file, {TOPIC: made}) == {1: NAME, 2: NAME, 3: NAME}
    found = plan_undo(file, {TOPIC: made}, (), {1}, left={1, 3})
    assert operations(found) == [Delete(TOPIC, 4), Create(deletion_path(3), NAME.encode())]
    (piece,) = plan_pieces(found)
    assert (piece.unlists, piece.written_to) == (((1, NAME), (3, NAME)), (3,))


def test_the_index_of_delayed_messages_of_a_cursor_that_was_not_there_goes_with_it() -> None:
    made = cursor_at(0, cursors_ledger_id=5, cursor_properties=((f"{DELAYED_BUCKET}1", "6"),))
    file = file_of(ChangedRecord(CURSOR, None, made))
    current = {TOPIC: AT_7, CURSOR: made}
    assert ledgers_to_delete(file, current) == {6: NAME}
    found = operations(plan_undo(file, current, (), left={6}))
    assert found[:3] == [Delete(CURSOR, 0), *(Create(deletion_path(at), NAME.encode()) for at in (5, 6))]


def test_a_shadow_topic_that_was_not_there_leaves_its_source_s_ledgers() -> None:
    made = topic_at(0, A, properties=(("PULSAR.SHADOW_SOURCE", "persistent://t/ns/source"),))
    assert ledgers_to_delete(file_of(ChangedRecord(TOPIC, None, made)), {TOPIC: made}) == {}


def test_a_cursor_of_a_topic_that_the_file_does_not_name_needs_it_too() -> None:
    file = file_of(ChangedRecord(CURSOR, cursor_at(1), cursor_at(2, last_active=5)), managed_ledgers=())
    assert paths_to_read(file) == (CURSOR, TOPIC)
    assert operations(plan(file)) == [Put(CURSOR, cursor_at(1).data, 2), Put(TOPIC, b"", 7)]
    with pytest.raises(UndoConflict, match=f"the topic {TOPIC} is gone"):
        plan(file, topic=None)


def test_a_cursor_without_its_topic_cannot_be_restored() -> None:
    with pytest.raises(UndoConflict, match="topic"):
        plan(file_of(ChangedRecord(CURSOR, cursor_at(9))), topic=None)


@pytest.mark.parametrize("now", [None, NodeState(b"new", 6), NodeState(b"other", 5), NodeState(b"old", 4)])
def test_a_record_that_is_not_as_the_command_left_it_is_named(now) -> None:
    file = file_of(
        ChangedRecord("/x", NodeState(b"old", 4), NodeState(b"new", 5)),
        ChangedRecord("/y", NodeState(b"old", 4), NodeState(b"new", 5)),
        managed_ledgers=(),
    )
    with pytest.raises(UndoConflict, match="/x is") as refused:
        plan_undo(file, {"/x": now, "/y": NodeState(b"new", 5)}, ())
    assert "/y" not in str(refused.value)


def test_an_incomplete_file_accepts_what_is_as_before_and_refuses_the_rest() -> None:
    same, other = ChangedRecord("/x", NodeState(b"old", 4)), ChangedRecord("/y", NodeState(b"old", 4))
    file = file_of(same, other, outcome=Outcome.BEGUN, managed_ledgers=())
    unchanged = {"/x": NodeState(b"old", 4), "/y": NodeState(b"old", 4)}
    assert plan_undo(file, unchanged, ()).changes == ()
    with pytest.raises(UndoConflict, match="--incomplete") as refused:
        plan_undo(file, unchanged | {"/y": NodeState(b"new", 6)}, ())
    assert "/x" not in str(refused.value)
    forced = plan_undo(file, unchanged | {"/y": NodeState(b"new", 6)}, (), incomplete=True)
    assert operations(forced) == [Put("/y", b"old", 6)]


# cursors


RANGES = (PositionRange(Position(1, 4), Position(1, 6)),)
IN_LEDGER = cursor_at(1, cursors_ledger_id=50, cursor_properties=(("a", "b"),))


def saved(state: PositionInfo) -> SavedCursor:
    return SavedCursor(CURSOR, encode_position_info(state))


def test_a_state_from_a_cursor_ledger_goes_into_the_record_if_it_fits() -> None:
    state = PositionInfo(Position(1, 3), RANGES, (("p", 1),))
    file = file_of(ChangedRecord(CURSOR, IN_LEDGER, cursor_at(2)), cursors=[saved(state)])
    (written, _) = operations(plan(file))
    assert isinstance(written, Put)
    record = decode_managed_cursor_info(written.data).value
    assert (record.cursors_ledger_id, record.mark_delete, record.ranges) == (-1, Position(1, 3), RANGES)
    assert (record.properties, record.cursor_properties) == ((("p", 1),), (("a", "b"),))


TOO_MUCH = {
    "many ranges": PositionInfo(
        Position(1, 3), tuple(PositionRange(Position(1, 2 * at), Position(1, 2 * at + 1)) for at in range(2, 1003))
    ),
    "batch indexes": PositionInfo(Position(1, 3), batch_deletions=(BatchDeletion(Position(1, 4), (1,)),)),
    "a large record": PositionInfo(Position(1, 3), properties=(("x" * 524_288, 1),)),
}


@pytest.mark.parametrize("state", TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_state_that_does_not_fit_the_record_goes_into_a_new_cursor_ledger(state) -> None:
    file = file_of(ChangedRecord(CURSOR, IN_LEDGER, cursor_at(2)), cursors=[saved(state)])
    found = plan(file)
    assert found.restorations[0].cursor_ledger.state == encode_position_info(state)
    written, listed, checked = operations(found, {CURSOR: 77})
    record = decode_managed_cursor_info(written.data).value
    assert (record.cursors_ledger_id, record.mark_delete, record.ranges) == (77, Position(1, 3), ())
    assert (listed, checked) == (Delete(pending_path(77)), Put(TOPIC, b"", 7))


def test_a_cursor_ledger_that_no_record_names_any_more_is_recorded_for_deletion() -> None:
    file = file_of(ChangedRecord(CURSOR, cursor_at(1), cursor_at(2, cursors_ledger_id=60)))
    found = plan(file)
    assert Create(deletion_path(60), NAME.encode()) in operations(found)
    assert [drop for piece in plan_pieces(found) for drop in piece.drops] == [(60, NAME)]


def test_a_cursor_ledger_that_is_still_named_is_kept() -> None:
    after = cursor_at(2, cursors_ledger_id=50, cursor_properties=(("a", "c"),))
    found = plan(file_of(ChangedRecord(CURSOR, IN_LEDGER, after)), {50})
    assert [drop for piece in plan_pieces(found) for drop in piece.drops] == []
    assert operations(found)[0] == Put(CURSOR, IN_LEDGER.data, 2)


def test_a_state_that_is_gone_and_not_in_the_file_cannot_be_restored() -> None:
    with pytest.raises(UndoConflict, match="cursor ledger 50"):
        plan(file_of(ChangedRecord(CURSOR, IN_LEDGER, cursor_at(2))))


# a topic's list


def restored(before: NodeState, after: NodeState | None, existing) -> tuple[ManagedLedgerInfo, str]:
    (each,) = plan(file_of(ChangedRecord(TOPIC, before, after)), existing, after).restorations
    return decode_managed_ledger_info(each.data).value, each.note


def test_a_list_whose_ledgers_did_not_change_is_restored_to_the_byte() -> None:
    before = topic_at(1, replace(A, entries=9), B)
    found = plan(file_of(ChangedRecord(TOPIC, before, topic_at(2, A, B))), {1, 2}, topic_at(2, A, B))
    assert operations(found) == [Put(TOPIC, before.data, 2)]


def test_a_ledger_that_is_gone_is_not_listed_again() -> None:
    info, note = restored(topic_at(1, A, B, properties=(("a", "b"),)), topic_at(2, B), {2})
    assert info == ManagedLedgerInfo((B,), properties=(("a", "b"),))
    assert "gone: 1 (10 entries)" in note


def test_of_many_ledgers_that_are_gone_or_were_added_a_note_names_the_first() -> None:
    many = [replace(B, ledger_id=at) for at in range(100, 20_100)]
    added = [replace(B, ledger_id=at) for at in range(30_000, 50_000)]
    _, note = restored(topic_at(1, *many), topic_at(2, *added), {each.ledger_id for each in added})
    assert "118, 119 and 19,980 more (400,000 entries)" in note
    assert "30018, 30019 and 19,980 more" in note
    assert len(note) < 500


def test_a_dropped_ledger_that_still_exists_is_listed_again() -> None:
    info, _ = restored(topic_at(1, A, B), topic_at(2, B), {1, 2})
    assert info.ledgers == (A, B)


def test_a_dropped_ledger_with_a_copy_in_tiered_storage_is_listed_again_without_bookies() -> None:
    context = OffloadContext(OffloadMessage(complete=True, bookkeeperDeleted=True).SerializeToString())
    offloaded = replace(A, offload=context)
    info, note = restored(topic_at(1, offloaded, B), topic_at(2, B), {2})
    assert (info.ledgers, note) == ((offloaded, B), "")


def test_a_ledger_created_since_is_kept_and_the_one_before_it_gets_its_true_entries() -> None:
    info, note = restored(topic_at(1, A, LedgerInfo(2), properties=OLD), topic_at(2, A, B, OPEN), {1, 2})
    assert info == ManagedLedgerInfo((A, B, OPEN), properties=OLD)
    assert "added since: 3" in note


def test_a_dropped_ledger_with_unknown_entries_is_not_put_before_another() -> None:
    info, _ = restored(topic_at(1, A, LedgerInfo(2), properties=OLD), topic_at(2, A, OPEN), {1, 2})
    assert info == ManagedLedgerInfo((A, OPEN), properties=OLD)


def test_a_dropped_ledger_that_is_not_listed_again_stays_recorded_as_kept() -> None:
    """2 was dropped while it was open, and another owner has opened the topic since."""
    marks = [ChangedRecord(kept_path(each), None, NodeState(NAME.encode(), 0)) for each in (1, 2)]
    file = file_of(ChangedRecord(TOPIC, topic_at(1, A, LedgerInfo(2)), topic_at(2, OPEN)), *marks)
    made = plan(file, {1, 2}, file.records[0].after)
    assert [each.action for each in made.restorations] == [UndoAction.SET, UndoAction.DELETE, UndoAction.LEAVE]


def test_a_kept_ledger_that_a_repair_listed_again_is_not_recorded_as_kept_again() -> None:
    mark = ChangedRecord(kept_path(1), NodeState(NAME.encode(), 0), None)
    file = file_of(ChangedRecord(TOPIC, topic_at(1, B), topic_at(2, A, B)), mark)
    made = plan(file, {1, 2}, file.records[0].after)
    assert [each.action for each in made.restorations] == [UndoAction.LEAVE, UndoAction.LEAVE]


def test_a_dropped_ledger_that_the_command_had_closed_gets_its_true_entries() -> None:
    before, after = topic_at(1, A, LedgerInfo(2)), topic_at(2, OPEN)
    file = structs.replace(file_of(ChangedRecord(TOPIC, before, after)), made_at_ms=9)
    found = plan_undo(file, {TOPIC: after}, {1, 2}, {1, 2}, ends={1: LedgerEnd(7, 7), 2: LedgerEnd(5, 50)})
    (restoration,) = found.restorations
    ledgers = decode_managed_ledger_info(restoration.data).value.ledgers
    assert ledgers == (A, LedgerInfo(2, entries=5, size=50, timestamp=9), OPEN)
    assert restoration.recorded == (1, 2)


def test_a_topic_that_cannot_be_restored_at_all_is_left() -> None:
    found = plan(file_of(ChangedRecord(TOPIC, topic_at(1, A, B), topic_at(2, B))), {2}, topic_at(2, B))
    assert [each.action for each in found.restorations] == [UndoAction.LEAVE]
    assert "gone" in found.restorations[0].note


def test_what_a_plan_must_warn_of() -> None:
    file = file_of(ChangedRecord(CURSOR, IN_LEDGER), ChangedRecord(TOPIC, topic_at(1, A, B)), ChangedRecord("/x", None))
    assert paths_to_read(file) == (CURSOR, TOPIC, "/x")
    assert ledgers_to_look_for(file) == [1, 2, 50]


def test_ledger_metadata_is_restored_as_it_was() -> None:
    path = ledger_path(5)
    file = file_of(ChangedRecord(path, NodeState(b"m", 3), None), managed_ledgers=())
    assert operations(plan_undo(file, {path: None}, ())) == [Create(path, b"m")]


def test_a_shadow_topic_is_not_restored() -> None:
    shadow = topic_at(3, A, properties=(("PULSAR.SHADOW_SOURCE", "persistent://t/ns/source"),))
    with pytest.raises(ShadowTopic, match="source"):
        plan(file_of(ChangedRecord(TOPIC, shadow)), {1}, None)


# ledgers beside the cursor ledger

COMPACTION = f"{TOPIC}/__compaction"
COMPACTED = (("CompactedTopicLedger", 70), ("other", 1))
BUCKETS = (("#pulsar.internal.delayed.bucket_1_2", "80"), ("#pulsar.internal.delayed.bucket_3_4", "81"), ("a", "80"))


def test_the_property_of_a_deleted_compacted_ledger_is_dropped_with_a_warning() -> None:
    file = file_of(ChangedRecord(COMPACTION, cursor_at(9, properties=COMPACTED)))
    assert ledgers_to_look_for(file) == [70]
    (restored,) = plan(file, ()).restorations
    assert decode_managed_cursor_info(restored.data).value.properties == (("other", 1),)
    assert "CompactedTopicLedger 70" in restored.note
    (kept,) = plan(file, {70}).restorations
    assert kept.data == cursor_at(9, properties=COMPACTED).data


def test_the_property_is_dropped_from_a_state_in_a_cursor_ledger_too() -> None:
    state = PositionInfo(Position(1, 3), (), COMPACTED)
    saved_state = SavedCursor(COMPACTION, encode_position_info(state))
    file = file_of(ChangedRecord(COMPACTION, cursor_at(1, cursors_ledger_id=50)), cursors=[saved_state])
    assert ledgers_to_look_for(file) == [50, 70]
    (restored,) = plan(file, ()).restorations
    assert decode_managed_cursor_info(restored.data).value.properties == (("other", 1),)
    assert "CompactedTopicLedger 70" in restored.note


def test_deleted_buckets_of_delayed_delivery_are_not_named_again() -> None:
    file = file_of(ChangedRecord(CURSOR, cursor_at(9, cursor_properties=BUCKETS)))
    (restored,) = plan(file, {81}).restorations
    assert decode_managed_cursor_info(restored.data).value.cursor_properties == (BUCKETS[1], BUCKETS[2])
    assert "bucket_1_2 80" in restored.note


def test_a_ledger_that_was_closed_is_not_opened_again() -> None:
    path, metadata = ledger_path(3), LedgerMetadata(1, 1, 1, (Segment(0, ("b:1",)),))
    opened = NodeState(encode_ledger_metadata(metadata), 0)
    closed = NodeState(encode_ledger_metadata(structs.replace(metadata, state=LedgerState.CLOSED, last_entry=4)), 2)
    file = file_of(ChangedRecord(path, opened, closed), managed_ledgers=())
    found = plan_undo(file, {path: closed}, ())
    assert [each.action for each in found.restorations] == [UndoAction.LEAVE]
    gone = file_of(ChangedRecord(path, opened, None), managed_ledgers=())
    assert operations(plan_undo(gone, {path: None}, ())) == [Create(path, opened.data)]


def test_each_topic_of_a_file_of_many_is_located_a_few_times_whatever_the_number_of_records(monkeypatch) -> None:
    names = [f"t/ns/persistent/topic-{number}" for number in range(30)]
    folders = {managed_ledger_path(name): topic_at(1, LedgerInfo(1)) for name in names}
    cursors = {f"{folder}/{cursor}": cursor_at(1, cursors_ledger_id=-1) for folder in folders for cursor in "ab"}
    left = folders | cursors
    records = [ChangedRecord(path, before, NodeState(before.data, 2)) for path, before in left.items()]
    located: list[str] = []
    monkeypatch.setattr(
        undo_plan, "managed_ledger_path", lambda name: located.append(name) or managed_ledger_path(name)
    )
    file = file_of(*records, managed_ledgers=tuple(names))
    assert ledgers_to_look_for(file) == [1]
    assert not plan_undo(file, {record.path: record.after for record in records}, {1}).changes
    assert len(located) < 5 * len(names)
