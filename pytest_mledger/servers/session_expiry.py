"""Ends sessions of a metadata server before their time, as if their clients had been silent for too long."""

import time

from mledger.ledgers.bundles import LIVE_BROKERS
from mledger.metastore.records.paths import LEDGERS
from mledger.metastore.records.pb import MetadataStore_pb2 as pb
from mledger.metastore.rocksdb import wire
from mledger.metastore.rocksdb.directory import connect
from pytest_mledger.servers.processes import ClusterFailed

REGISTERED_S = 30.0
_LOOK_EVERY_S = 0.01
_ANSWER_S = 30.0
_READ_BYTES = 65536
_ANSWERS = 2
_LOOK = pb.Hello(protocol=wire.PROTOCOL, only_reads=True)
_READ_ONLY = "readonly"
_BOOKIES = f"{LEDGERS}/available"
_REGISTRATIONS = pb.Read(want=pb.Read.CHILDREN, paths=[_BOOKIES, f"{_BOOKIES}/{_READ_ONLY}", LIVE_BROKERS])


def expire_sessions(directory: str, *, bookies: int, brokers: int) -> None:
    """End every session that the server of `directory` has by now; their ephemeral nodes go with them.

    Returns once as many bookies and brokers have registered in new sessions. ClusterFailed if they do not.
    """
    _, listed = _ask(directory, _LOOK, pb.Request(id=2, list_sessions=pb.ListSessions()))
    for session_id in listed.session_ids.ids:
        # Taken over and left in one write: its client cannot take it back.
        taken_over = pb.Hello(protocol=wire.PROTOCOL, session_id=session_id)
        _ask(directory, taken_over, pb.Request(id=2, goodbye=pb.Goodbye()))
    deadline = time.monotonic() + REGISTERED_S
    while True:
        found = _registered(directory)
        if found[0] >= bookies and found[1] >= brokers:
            return
        if time.monotonic() > deadline:
            raise ClusterFailed(
                f"{REGISTERED_S:g} s after the sessions ended, {found[0]} of {bookies} bookies and {found[1]} of "
                f"{brokers} brokers are registered again: see their logs"
            )
        time.sleep(_LOOK_EVERY_S)


def _registered(directory: str) -> tuple[int, int]:
    """How many bookies and brokers are registered."""
    _, answer = _ask(directory, _LOOK, pb.Request(id=2, read=_REGISTRATIONS))
    writable, read_only, brokers = (node.children for node in answer.found.nodes)
    return sum(name != _READ_ONLY for name in writable) + len(read_only), len(brokers)


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
