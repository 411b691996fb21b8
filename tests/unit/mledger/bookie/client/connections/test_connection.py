"""A connection delivers the same answers however the bytes are divided."""

import asyncio
import itertools

from hypothesis import given
from hypothesis import strategies as st

from mledger.bookie import wire
from mledger.bookie.client.connections.connection import BookieConnection
from mledger.bookie.errors import Code


class Heard:
    """Records the calls of a ledger's listener."""

    def __init__(self):
        self.entries, self.errors, self.lost = [], [], []

    def acknowledged_run(self, _, first, last):
        self.entries += range(first, last + 1)

    def acknowledged(self, _, entries):
        self.entries += entries

    def refused(self, _, entry, code):
        self.errors.append((entry, code))

    def connection_lost(self, _, reason):
        self.lost.append(reason)

    def writable_again(self, _):
        raise AssertionError("nothing was sent")


def deliver(data, cuts, ledgers=2):
    loop = asyncio.new_event_loop()
    try:
        connection = BookieConnection("b", loop, read_timeout_s=1, max_answer=1000)
        listeners = [Heard() for _ in range(ledgers)]
        for ledger, listener in enumerate(listeners):
            connection.listen(ledger, listener)
        bounds = [0, *sorted(cuts), len(data)]
        for start, stop in itertools.pairwise(bounds):
            connection.data_received(data[start:stop])
        return connection, listeners
    finally:
        loop.close()


ANSWERS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 40), st.sampled_from([0, 0, 0, 0, 0, Code.IO_ERROR])), max_size=60
)


@given(ANSWERS, st.lists(st.integers(0, 60 * 28), max_size=8))
def test_add_answers_reach_their_ledger_in_order(answers, cuts):
    data = b"".join(wire.encode_response(wire.Op.ADD, error, ledger, entry) for ledger, entry, error in answers)
    _, listeners = deliver(data, [min(cut, len(data)) for cut in cuts])
    for ledger, listener in enumerate(listeners):
        assert listener.entries == [entry for of, entry, error in answers if of == ledger and not error]
        assert {code for _, code in listener.errors} == {error for of, _, error in answers if of == ledger and error}


RUNS = st.lists(
    st.tuples(st.integers(0, 5), st.lists(st.integers(0, 40), min_size=1, max_size=12), st.booleans()), max_size=12
)


@given(RUNS)
def test_answers_of_many_ledgers_in_one_piece_are_delivered_ledger_by_ledger(runs):
    answers = [
        (ledger, entry)
        for ledger, entries, ordered in runs
        for entry in (range(entries[0], entries[0] + len(entries)) if ordered else entries)
    ]
    data = b"".join(wire.encode_response(wire.Op.ADD, 0, ledger, entry) for ledger, entry in answers)
    _, listeners = deliver(data, [], ledgers=6)
    for ledger, listener in enumerate(listeners):
        assert listener.entries == [entry for of, entry in answers if of == ledger]


def test_a_listener_that_ends_the_connection_is_the_last_to_hear():
    loop = asyncio.new_event_loop()
    connection = BookieConnection("b", loop, read_timeout_s=1, max_answer=1000)
    listeners = [Heard() for _ in range(3)]
    for ledger, listener in enumerate(listeners):
        connection.listen(ledger, listener)
    listeners[1].acknowledged_run = lambda *_: connection.close()
    connection.data_received(b"".join(wire.encode_response(wire.Op.ADD, 0, entry % 3, entry) for entry in range(30)))
    loop.close()
    assert [listener.entries for listener in listeners] == [[0], [], []]
    assert [len(listener.lost) for listener in listeners] == [1, 1, 1]


def test_runs_of_add_answers_are_delivered_as_runs():
    data = b"".join(wire.encode_response(wire.Op.ADD, 0, 0, entry) for entry in range(500))
    _, (listener, _) = deliver(data, [])
    assert listener.entries == list(range(500))


def test_an_answer_that_is_too_long_ends_the_connection():
    connection, (listener, _) = deliver(wire.LENGTH.pack(5000) + bytes(40), [])
    assert connection.closed
    assert listener.lost == ["it sent an answer of 5004 bytes, 1000 are allowed"]


def test_an_answer_that_is_too_short_ends_the_connection():
    connection, _ = deliver(wire.LENGTH.pack(3) + bytes(40), [])
    assert connection.closed


def test_answers_without_a_caller_are_dropped():
    data = wire.encode_response(wire.Op.READ, 0, 5, 5, b"late") + wire.encode_response(wire.Op.ADD, 0, 0, 3)
    connection, (listener, _) = deliver(data, [])
    assert not connection.closed
    assert listener.entries == [3]


def test_only_answers_to_adds_show_that_a_bookie_acknowledges():
    read = wire.encode_response(wire.Op.READ, Code.NO_ENTRY, 0, 1)
    asked, _ = deliver(read, [])
    assert asked.heard_at > asked.acknowledged_at
    for count in (1, 20):
        adds = wire.encode_response(wire.Op.ADD, 0, 9, 1) * count
        written, _ = deliver(adds + read, [])
        assert written.acknowledged_at == written.heard_at
