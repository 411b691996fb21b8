"""Ends sessions of a metadata server before their time, as if their clients had been silent for too long."""

from mledger.metastore.records.pb import MetadataStore_pb2 as pb
from mledger.metastore.rocksdb import wire
from mledger.metastore.rocksdb.directory import connect

_ANSWER_S = 30.0
_READ_BYTES = 65536
_ANSWERS = 2
_LOOK = pb.Hello(protocol=wire.PROTOCOL, only_reads=True)


def expire_sessions(directory: str) -> None:
    """End every session that the server of `directory` has by now, and wait until their ephemeral nodes are gone."""
    _, listed = _ask(directory, _LOOK, pb.Request(id=2, list_sessions=pb.ListSessions()))
    for session_id in listed.session_ids.ids:
        # Taken over and left in one write: its client cannot take it back.
        taken_over = pb.Hello(protocol=wire.PROTOCOL, session_id=session_id)
        _ask(directory, taken_over, pb.Request(id=2, goodbye=pb.Goodbye()))


def _ask(directory: str, hello: pb.Hello, request: pb.Request) -> list[pb.Answer]:
    """The answers to a greeting and a request; only one when the greeted session has ended."""
    frames = wire.Frames(pb.Answer, wire.MAX_ANSWER)
    answers: list[pb.Answer] = []
    with connect(directory) as server:
        server.settimeout(_ANSWER_S)
        server.sendall(wire.frame(pb.Request(id=1, hello=hello)) + wire.frame(request))
        while len(answers) < _ANSWERS and (data := server.recv(_READ_BYTES)):
            answers += frames.feed(data)
    return answers
