"""How an undo that does not fit one request is divided, over plain values (M11)."""

import pytest
from msgspec import structs

from mledger.admin.undo.undo_file import ChangedRecord, NodeState, Outcome, UndoFile
from mledger.admin.undo.undo_pieces import plan_pieces
from mledger.admin.undo.undo_plan import plan_undo
from mledger.errors import UndoConflict
from mledger.metastore.records.codec import encode_managed_cursor_info, encode_managed_ledger_info
from mledger.metastore.records.paths import deletion_path, ledger_path
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo, ManagedLedgerInfo
from mledger.metastore.store import Check, Create, Delete, Put

NAME = "t/ns/persistent/topic"
TOPIC = f"/managed-ledgers/{NAME}"
MANY = 450
CURSORS = [f"{TOPIC}/sub-{at:04}" for at in range(MANY)]

FULL = encode_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(1, 10, 100, 5),), properties=(("a", "b"),)))
EMPTY = encode_managed_ledger_info(ManagedLedgerInfo((), properties=(("a", "b"),)))
OLD, NEW = (encode_managed_cursor_info(ManagedCursorInfo(mark_delete=Position(1, at))) for at in (2, 5))


def file_of(*records):
    return UndoFile("test", "topic", 0, "zk://x", records, (NAME,), (), (), Outcome.DONE)


def deleted():
    return file_of(
        ChangedRecord(TOPIC, NodeState(FULL, 3)), *(ChangedRecord(each, NodeState(OLD, 1)) for each in CURSORS)
    )


def pieces(file, existing=(1,), recorded=(), **now):
    current = {each.path: each.after for each in file.records} | {TOPIC: now.pop("topic", None)} | now
    return [piece.operations({}) for piece in plan_pieces(plan_undo(file, current, existing, recorded))]


def test_a_deleted_topic_is_created_without_ledgers_then_its_cursors_then_its_list():
    first, *between, last = pieces(deleted())
    assert first == [Create(TOPIC, EMPTY)]
    assert [len(piece) for piece in between] == [201, 201, 51]
    assert all(piece[-1] == Check(TOPIC, 0) for piece in between)
    assert [each for piece in between for each in piece[:-1]] == [Create(each, OLD) for each in CURSORS]
    assert last == [Put(TOPIC, FULL, 0)]


def test_a_topic_whose_ledgers_are_gone_is_written_once():
    first, *between = pieces(deleted(), ())
    assert first == [Create(TOPIC, EMPTY)]
    assert len(between) == 3


def test_moved_cursors_are_checked_against_their_topic_and_the_list_comes_last():
    moved = (ChangedRecord(each, NodeState(OLD, 1), NodeState(NEW, 2)) for each in CURSORS)
    *between, last = pieces(file_of(ChangedRecord(TOPIC, NodeState(FULL, 3), NodeState(EMPTY, 4)), *moved),
                            topic=NodeState(EMPTY, 4))  # fmt: skip
    assert all(piece[-1] == Check(TOPIC, 4) for piece in between)
    assert last == [Put(TOPIC, FULL, 4)]


def test_what_was_created_is_deleted_with_cursors_first():
    made = [ChangedRecord(each, None, NodeState(OLD, 0)) for each in (TOPIC, *CURSORS)]
    made[0] = ChangedRecord(TOPIC, None, NodeState(EMPTY, 0))
    *between, last = pieces(file_of(*made), topic=NodeState(EMPTY, 0))
    assert {each for piece in between for each in piece[:-1]} == {Delete(each, 0) for each in CURSORS}
    assert last == [Delete(TOPIC, 0)]


def test_nodes_of_many_ledgers_are_checked_against_the_one_topic():
    file = file_of(*(ChangedRecord(ledger_path(at), NodeState(b"m", 1)) for at in range(MANY)))
    found = pieces(file, topic=NodeState(FULL, 7))
    assert [len(piece) for piece in found] == [201, 201, 51]
    assert all(piece[-1] == Check(TOPIC, 7) for piece in found)


LONG = encode_managed_ledger_info(ManagedLedgerInfo(tuple(LedgerInfo(at, 10, 100, 5) for at in range(MANY))))
NO_LIST = encode_managed_ledger_info(ManagedLedgerInfo())


@pytest.mark.parametrize("after", [None, NodeState(NO_LIST, 4)], ids=["deleted", "trimmed"])
def test_many_records_of_deletion_are_removed_before_the_list(after):
    file = file_of(ChangedRecord(TOPIC, NodeState(LONG, 3), after))
    found = pieces(file, range(MANY), range(100, MANY), topic=after)
    version = 0 if after is None else 4
    if after is None:
        assert found.pop(0) == [Create(TOPIC, NO_LIST)]
    *between, last = found
    assert last == [Put(TOPIC, LONG, version)]
    assert [len(piece) for piece in between] == [201, 151]
    assert all(piece[-1] == Check(TOPIC, version) for piece in between)
    assert [each for piece in between for each in piece[:-1]] == [
        Delete(deletion_path(at), 0) for at in range(100, MANY)
    ]
    going_on = pieces(file, range(MANY), range(300, MANY), topic=NodeState(NO_LIST, version))
    assert [len(piece) for piece in going_on] == [151, 1]


def test_an_undo_that_was_cut_off_continues():
    done = {each: NodeState(OLD, 0) for each in CURSORS[:400]}
    found = pieces(deleted(), topic=NodeState(EMPTY, 0), **done)
    assert found == [
        [*(Create(each, OLD) for each in CURSORS[400:]), Check(TOPIC, 0)],
        [Put(TOPIC, FULL, 0)],
    ]


def test_a_record_that_another_changed_in_between_is_named():
    with pytest.raises(UndoConflict, match="sub-0003 is at version 1"):
        pieces(deleted(), topic=NodeState(EMPTY, 0), **{CURSORS[3]: NodeState(NEW, 1)})


def test_a_deleted_topic_s_ledgers_are_recorded_before_it_in_pieces():
    file = file_of(ChangedRecord(TOPIC, None, NodeState(LONG, 3)))
    plan = plan_undo(file, {TOPIC: NodeState(LONG, 3)}, (), range(100), left=range(MANY))
    *between, last = plan_pieces(plan)
    recorded = [each for piece in between for each in piece.operations({})[:-1]]
    assert recorded == [Create(deletion_path(at), NAME.encode()) for at in range(100, MANY)]
    assert all(piece.checks == (Check(TOPIC, 3),) and not piece.unlists for piece in between)
    assert last.operations({}) == [Delete(TOPIC, 3)]
    assert last.unlists == tuple((at, NAME) for at in range(MANY))


def test_nodes_are_deleted_from_below():
    paths = ["/a", *(f"/a/{at:04}" for at in range(MANY))]
    file = UndoFile("test", "x", 0, "zk://x", tuple(ChangedRecord(each, None, NodeState(b"", 0)) for each in paths))
    found = plan_pieces(plan_undo(done(file), {each: NodeState(b"", 0) for each in paths}, ()))
    deleted = [each.path for piece in found for each in piece.operations({})]
    assert (len(found), deleted) == (3, sorted(paths, reverse=True))


OTHER = "/managed-ledgers/t/ns/persistent/other"
OTHERS = [f"{OTHER}/sub-{at:04}" for at in range(MANY)]


@pytest.mark.parametrize("written", [True, False])
def test_cursors_of_a_topic_that_the_file_does_not_name_are_checked_against_it(written):
    """As those of a restore, which takes topics for nodes like others; the topic may itself be restored before them."""
    moved = [ChangedRecord(each, NodeState(OLD, 1), NodeState(NEW, 2)) for each in OTHERS]
    moved += [ChangedRecord(OTHER, NodeState(FULL, 3), NodeState(EMPTY, 4))] if written else []
    file = done(UndoFile("metadata restore", "x", 0, "zk://x", tuple(moved)))
    current = {OTHER: NodeState(EMPTY, 4)} | {each.path: each.after for each in moved}
    first, *others = plan_pieces(plan_undo(file, current, ()))
    assert first.checks == (() if written else (Put(OTHER, EMPTY, 4),))
    assert [piece.checks for piece in others] == [(Check(OTHER, 5),)] * (2 if written else 3)


def test_a_topic_s_long_record_is_written_apart_from_its_cursors():
    file = file_of(ChangedRecord(CURSORS[0], NodeState(OLD, 1), NodeState(NEW, 2)))
    topic = NodeState(bytes(300_000), 7)
    expected = [[Put(TOPIC, topic.data, 7)], [Put(CURSORS[0], OLD, 2), Check(TOPIC, 8)]]
    assert pieces(file, topic=topic) == expected
    current = {TOPIC: topic, CURSORS[0]: NodeState(NEW, 2)}
    assert [each.operations({}) for each in plan_pieces(plan_undo(file, current, (), two_stores=True))] == expected


def done(file):
    return structs.replace(file, outcome=Outcome.DONE)


def test_many_topics_are_fenced_together():
    topics = [f"/managed-ledgers/t/ns/persistent/topic-{at:03}" for at in range(MANY)]
    moved = tuple(ChangedRecord(f"{each}/one", NodeState(OLD, 1), NodeState(NEW, 2)) for each in topics)
    current = dict.fromkeys(topics, NodeState(EMPTY, 7)) | {each.path: each.after for each in moved}
    file = done(UndoFile("metadata restore", "x", 0, "zk://x", moved))
    found = [piece.operations({}) for piece in plan_pieces(plan_undo(file, current, ()))]
    assert [len(piece) for piece in found[:3]] == [200, 200, 50]
    assert [each for piece in found[:3] for each in piece] == [Put(each, EMPTY, 7) for each in topics]
    assert {each for piece in found[3:] for each in piece} == {
        *(Put(f"{each}/one", OLD, 2) for each in topics),
        *(Check(each, 8) for each in topics),
    }
