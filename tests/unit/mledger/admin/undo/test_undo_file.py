"""The undo file as JSON: what was written is read again, and anything else is refused by name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.admin.undo.undo_file import (
    ChangedRecord,
    NodeState,
    Outcome,
    SavedCursor,
    TopicIdentity,
    UndoFile,
    decode_undo_file,
    encode_undo_file,
)
from mledger.errors import UndoFileError

states = st.none() | st.builds(NodeState, st.binary(max_size=20), st.integers(0, 2**31))
names = st.text(st.characters(codec="utf-8"), max_size=20)
paths = st.lists(st.text("abc%+.-", min_size=1, max_size=5), min_size=1, max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)


@st.composite
def files(draw: st.DrawFn) -> UndoFile:
    """Any undo file that a command may write."""
    outcome = draw(st.sampled_from(Outcome))
    after = st.none() if outcome is Outcome.BEGUN else states
    known = draw(st.lists(paths, unique=True, max_size=4))
    return UndoFile(
        command=draw(names),
        subject=draw(names),
        made_at_ms=draw(st.integers(0, 4_000_000_000_000)),
        cluster=draw(names),
        records=tuple(ChangedRecord(path, draw(states), draw(after)) for path in known),
        managed_ledgers=tuple(draw(st.lists(names, max_size=2))),
        cursors=tuple(SavedCursor(path, draw(st.binary(max_size=20))) for path in known[:2]),
        lost=tuple(draw(st.lists(names, max_size=2))),
        outcome=outcome,
        topics=tuple(
            TopicIdentity(path, draw(st.integers(0, 2**62)), tuple(draw(st.lists(st.integers(0, 2**62), max_size=2))))
            for path in known[:2]
        ),
    )


@given(files())
def test_what_was_written_is_read_again(file) -> None:
    assert decode_undo_file(encode_undo_file(file)) == file


FILE = UndoFile(
    "cursors skip",
    "orders billing",
    1_769_860_800_123,
    "zk://127.0.0.1:2181",
    (ChangedRecord("/a", NodeState(b"x", 1), NodeState(b"y", 2)), ChangedRecord("/b", None, NodeState(b"", 0))),
    cursors=(SavedCursor("/a", b"state"),),
    outcome=Outcome.DONE,
    topics=(TopicIdentity("/t", 5, (7,)),),
)


def test_it_is_json_that_people_can_read() -> None:
    value = json.loads(encode_undo_file(FILE))
    assert value["format"] == 1
    assert value["made_at"] == "2026-01-31T12:00:00.123Z"
    assert value["records"][1] == {"path": "/b", "before": None, "after": {"data": "", "version": 0}}
    assert value["topics"] == [{"path": "/t", "created_ms": 5, "ledgers": [7]}]
    assert value["cursors"] == [{"path": "/a", "state": "c3RhdGU="}]


def changed(change) -> bytes:
    """The file after a change of its JSON."""
    value = json.loads(encode_undo_file(FILE))
    change(value)
    return json.dumps(value).encode()


def test_a_topic_is_known_by_the_creation_of_its_record_or_else_by_a_ledger() -> None:
    topic = TopicIdentity("/t", 5, (7, 8))
    assert topic.is_same(TopicIdentity("/t", 5))
    assert topic.is_same(TopicIdentity("/t", 6, (8, 9)))
    assert not topic.is_same(TopicIdentity("/t", 6, (9,)))


BAD = {
    "no JSON": b"{",
    "no object": b"[]",
    "no text": b"\xff",
    "nested too deep": b"[" * 100_000,
    "no format": changed(lambda v: v.pop("format")),
    "a newer format": changed(lambda v: v.update(format=2)),
    "a format that is no number": changed(lambda v: v.update(format=True)),
    "an unknown field": changed(lambda v: v.update(more=1)),
    "a missing field": changed(lambda v: v.pop("lost")),
    "a field twice": encode_undo_file(FILE).replace(b'"format": 1,', b'"format": 1, "format": 1,'),
    "an unknown outcome": changed(lambda v: v.update(outcome="perhaps")),
    "another kind of time": changed(lambda v: v.update(made_at="yesterday")),
    "a path that is none": changed(lambda v: v["records"][0].update(path="a")),
    "a path twice": changed(lambda v: v["records"][0].update(path="/b")),
    "a version that is none": changed(lambda v: v["records"][0]["before"].update(version=-1)),
    "a version that is a truth value": changed(lambda v: v["records"][0]["before"].update(version=True)),
    "data that is no base64": changed(lambda v: v["records"][0]["before"].update(data="x")),
    "a record without after": changed(lambda v: v["records"][0].pop("after")),
    "records that are no list": changed(lambda v: v.update(records={})),
    "lost that is no text": changed(lambda v: v.update(lost=[1])),
    "a ledger that is none": changed(lambda v: v["topics"][0].update(ledgers=[-1])),
    "a cursor without its record": changed(lambda v: v["cursors"][0].update(path="/c")),
    "an after though it is not completed": changed(lambda v: v.update(outcome="begun")),
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_anything_else_is_refused(data) -> None:
    with pytest.raises(UndoFileError):
        decode_undo_file(data)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_undo_file_are_refused_without_a_crash(data) -> None:
    with pytest.raises(UndoFileError):
        decode_undo_file(data)


def test_who_names_another_file_is_told_which_one_is_meant() -> None:
    with pytest.raises(UndoFileError, match="name the file that a command printed as its undo file"):
        decode_undo_file(b"hello")
