"""Requests to a metadata server in a session of their own, without an event loop."""

from mledger.metastore.records.pb import MetadataStore_pb2 as pb
from mledger.metastore.rocksdb import wire
from mledger.metastore.rocksdb.directory import connect

_ANSWER_S = 30.0
_READ_BYTES = 65536
_TIMEOUT_MS = 10_000


def exchange(directory: str, *requests: pb.Request, session_id: int = 0) -> list[pb.Answer]:
    """Send requests to the server of `directory` in one write, and return all answers.

    They are made in a session that ends with the last of them: in a new one, or in `session_id`,
    which its client cannot take back then.
    """
    first = pb.Request(hello=pb.Hello(protocol=wire.PROTOCOL, session_id=session_id, timeout_ms=_TIMEOUT_MS))
    frames = wire.Frames(pb.Answer, wire.MAX_ANSWER)
    answers: list[pb.Answer] = []
    with connect(directory) as server:
        server.settimeout(_ANSWER_S)
        every = (first, *requests, pb.Request(goodbye=pb.Goodbye()))
        for number, request in enumerate(every, 1):
            request.id = number
        server.sendall(b"".join(map(wire.frame, every)))
        while data := server.recv(_READ_BYTES):
            answers += frames.feed(data)
    return answers
