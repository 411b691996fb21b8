"""Which entries go to which bookie of an ensemble (Q1)."""

from mledger.bookie.client.connections.connection import AddListener
from mledger.bookie.client.ledgers.ensembles.ensemble_connections import EnsembleConnections
from mledger.bookie.client.plans.quorum import WriteQuorum


class WrittenConnection:
    """The frames written to one bookie, and its listener."""

    def __init__(self):
        self.written, self.listeners, self.congested = [], {}, False

    def write(self, frames):
        self.written.append(frames)

    def listen(self, ledger_id, listener):
        self.listeners[ledger_id] = listener

    def unlisten(self, ledger_id, listener):
        assert self.listeners.pop(ledger_id) is listener


class DeafListener(AddListener):
    """Receives nothing here."""


def ensemble(size, write_quorum):
    """Connections of ledger 7 with a bookie in each place."""
    listener = DeafListener()
    connections = EnsembleConnections(7, WriteQuorum(size, write_quorum, 1), listener)
    members = [WrittenConnection() for _ in range(size)]
    for index, member in enumerate(members):
        connections.put(index, member)
        assert member.listeners == {7: listener}
    return connections, members


def parts(first, last):
    """Frames of two parts each that name their entry."""
    return [part for entry in range(first, last + 1) for part in (b"h%d " % entry, b"p%d " % entry)]


def frames(*entries):
    """The bytes written for these entries."""
    return b"".join(b"h%d p%d " % (entry, entry) for entry in entries)


def test_without_striping_every_bookie_gets_every_entry_in_one_write():
    connections, members = ensemble(3, 3)
    connections.send(parts(10, 12), 10, 12)
    assert [member.written for member in members] == [[frames(10, 11, 12)]] * 3


def test_with_striping_each_bookie_gets_its_entries_in_one_write():
    connections, members = ensemble(3, 2)
    connections.send(parts(0, 3), 0, 3)  # the write sets are 01 12 20 01
    assert [member.written for member in members] == [[frames(0, 2, 3)], [frames(0, 1, 3)], [frames(1, 2)]]


def test_a_bookie_whose_write_sets_are_not_in_the_batch_is_sent_nothing():
    connections, members = ensemble(3, 1)
    connections.send(parts(1, 1), 1, 1)
    assert [member.written for member in members] == [[], [frames(1)], []]


def test_part_of_a_batch_is_sent_to_one_bookie():
    connections, members = ensemble(3, 2)
    connections.send_to(2, parts(0, 5), 0, 2, 5)
    assert [member.written for member in members] == [[], [], [frames(2, 4, 5)]]


def test_a_removed_bookie_receives_nothing_and_reports_nothing():
    connections, members = ensemble(3, 3)
    connections.take_out(1)
    connections.send(parts(0, 0), 0, 0)
    connections.send_to(1, parts(0, 0), 0, 0, 0)
    assert [member.written for member in members] == [[frames(0)], [], [frames(0)]]
    assert members[1].listeners == {}
    assert connections.indexes == {members[0]: 0, members[2]: 2}


def test_the_ensemble_is_congested_while_one_of_its_bookies_is():
    connections, members = ensemble(3, 3)
    members[1].congested = True
    assert connections.congested
    connections.take_out(1)
    assert not connections.congested


def test_nobody_listens_after_the_end():
    connections, members = ensemble(2, 2)
    connections.leave()
    assert connections.indexes == {}
    assert all(member.listeners == {} for member in members)
