"""Frames of the metadata protocol: cut anywhere, damaged anywhere."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from mledger.metastore import errors
from mledger.metastore.records.pb import MetadataStore_pb2 as pb
from mledger.metastore.rocksdb import wire
from mledger.metastore.rocksdb.wire import Frames, WireError, frame
from mledger.metastore.store import ANY_VERSION, Check, Create, Delete, NodeChange, Put

OPERATIONS = st.one_of(
    st.builds(Create, st.text(), st.binary(), st.booleans(), st.booleans()),
    st.builds(Put, st.text(), st.binary(), st.integers(ANY_VERSION, 2**31 - 1)),
    st.builds(Delete, st.text(), st.integers(ANY_VERSION, 2**31 - 1)),
    st.builds(Check, st.text(), st.integers(ANY_VERSION, 2**31 - 1)),
)


@given(st.lists(OPERATIONS), st.booleans())
def test_operations_are_read_back_as_sent(operations, with_parents):
    (request,) = Frames(pb.Request).feed(frame(wire.write_of(operations, with_parents=with_parents)))
    assert wire.operations_of(request.write) == operations
    assert request.write.with_parents == with_parents


@given(st.lists(st.one_of(st.none(), st.text(), st.integers(0, 2**31 - 1))))
def test_results_are_read_back_as_sent(results):
    written = pb.Written()
    wire.fill_written(written, results)
    assert wire.results_of(written) == results


@given(st.lists(st.binary(max_size=40), max_size=5), st.data())
def test_frames_may_come_in_any_pieces(payloads, data):
    messages = [pb.Request(id=number, read=pb.Read(paths=["/"])) for number, _ in enumerate(payloads, 1)]
    stream = b"".join(map(frame, messages))
    frames, found = Frames(pb.Request), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += frames.feed(stream[:size])
        stream = stream[size:]
    assert found == messages


@given(st.binary(max_size=200))
def test_damaged_bytes_are_refused_or_not_yet_a_frame(data):
    try:
        for request in Frames(pb.Request).feed(data):
            wire.operations_of(request.write)
    except WireError:
        pass


def test_a_frame_over_the_limit_is_refused_before_it_arrives():
    with pytest.raises(WireError, match="over the limit"):
        list(Frames(pb.Request).feed((wire.MAX_FRAME + 1).to_bytes(4, "big")))


@pytest.mark.parametrize(
    "kind",
    [
        errors.NodeNotFound,
        errors.NodeExists,
        errors.NodeNotEmpty,
        errors.BadVersion,
        errors.NoChildrenForEphemerals,
        errors.NodeTooLarge,
        errors.InvalidName,
        errors.MetadataAccessDenied,
        errors.MetadataError,
    ],
)
def test_errors_keep_their_class_message_and_path(kind):
    refused = pb.Refused()
    wire.fill_refused(refused, kind("what happened", "/path"))
    error = wire.error_of(refused)
    assert (type(error), str(error), error.path) == (kind, "what happened", "/path")


@pytest.mark.parametrize("change", [change for change in NodeChange if change is not NodeChange.UNKNOWN])
def test_a_watch_receives_each_change(change):
    (answer,) = Frames(pb.Answer).feed(wire.event_of(7, change))
    assert (answer.event.watch_id, wire.change_of(answer.event)) == (7, change)


def test_an_unknown_change_from_a_later_server_means_look_again():
    assert wire.change_of(pb.Event(change=99)) is NodeChange.UNKNOWN
