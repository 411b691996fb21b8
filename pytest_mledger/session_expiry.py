"""Ends sessions of a metadata server before their time, as if their clients had been silent for too long."""

from mledger.metastore.records.pb import MetadataStore_pb2 as pb
from mledger.metastore.rocksdb import wire
from mledger.metastore.rocksdb.directory import connect

_ANSWER_S = 30.0
_READ_BYTES = 65536
_TIMEOUT_MS = 10_000


def expire_sessions(directory: str) -> None:
    """End every session that the server of `directory` has by now, and wait until their ephemeral nodes are gone."""
    last = _end_session(directory, 0)
    for session_id in range(1, last):
        _end_session(directory, session_id)


def _end_session(directory: str, session_id: int) -> int:
    """Take a session over and leave it, in one write, so that its client cannot take it back; 0 begins a new one.

    Returns its id; 0 if it had ended before.
    """
    hello = pb.Hello(protocol=wire.PROTOCOL, session_id=session_id, timeout_ms=_TIMEOUT_MS)
    requests = pb.Request(id=1, hello=hello), pb.Request(id=2, goodbye=pb.Goodbye())
    frames = wire.Frames(pb.Answer, wire.MAX_ANSWER)
    found = 0
    with connect(directory) as server:
        server.settimeout(_ANSWER_S)
        server.sendall(b"".join(map(wire.frame, requests)))
        while data := server.recv(_READ_BYTES):
            for answer in frames.feed(data):
                found = answer.welcome.session_id or found
    return found
