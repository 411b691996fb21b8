"""The connections of one ledger's ensemble, and the entries that each carries (Q1).

A batch is one write to each bookie. What a bookie has not read yet waits in its connection's send buffer.
"""

from itertools import chain

from mledger.bookie.client.connections.connection import AddListener, BookieConnection
from mledger.bookie.client.plans.quorum import WriteQuorum
from mledger.bookie.client.plans.write_sets import entries_of


class EnsembleConnections:
    """Connections by ensemble index; an index whose bookie has failed has none."""

    def __init__(self, ledger_id: int, quorum: WriteQuorum, listener: AddListener) -> None:
        self.indexes: dict[BookieConnection, int] = {}
        """The connections in place, with their indexes."""
        self._ledger_id, self._listener = ledger_id, listener
        self._ensemble_size, self._write_quorum = quorum.ensemble_size, quorum.write_quorum
        self._striped = quorum.write_quorum < quorum.ensemble_size
        self._places: list[BookieConnection | None] = [None] * quorum.ensemble_size

    @property
    def congested(self) -> bool:
        """Whether a bookie's send buffer is full."""
        for connection in self.indexes:  # noqa: SIM110 - asked with each acknowledgement, and a generator costs more
            if connection.congested:
                return True
        return False

    def put(self, index: int, connection: BookieConnection) -> None:
        """Use `connection` for the bookie at `index` from now on; the listener gets its answers."""
        self._places[index] = connection
        self.indexes[connection] = index
        connection.listen(self._ledger_id, self._listener)

    def take_out(self, index: int) -> None:
        """Send nothing more to the bookie at `index` and take no more answers from it."""
        connection = self._places[index]
        if connection is not None:
            connection.unlisten(self._ledger_id, self._listener)
            self.indexes.pop(connection, None)
            self._places[index] = None

    def leave(self) -> None:
        """Accept no more answers from any bookie."""
        for connection in self.indexes:
            connection.unlisten(self._ledger_id, self._listener)
        self.indexes.clear()

    def send(self, parts: list[bytes], first: int, last: int) -> None:
        """Send the entries `first` to `last`, encoded in `parts`, to the bookies of their write sets."""
        if self._striped:
            for index in range(self._ensemble_size):
                self.send_to(index, parts, first, first, last)
        else:
            frames = b"".join(parts)
            for connection in self._places:
                if connection is not None:
                    connection.write(frames)

    def send_to(self, index: int, parts: list[bytes], parts_from: int, first: int, last: int) -> None:
        """Send to the bookie at `index` those of the entries `first` to `last` that belong to it.

        `parts` are the frames from entry `parts_from` on, each in two parts, head and payload.
        """
        connection = self._places[index]
        if connection is None:
            return
        mine = entries_of(index, first, last, self._ensemble_size, self._write_quorum)
        if mine:
            places = [2 * (entry - parts_from) for entry in mine]
            connection.write(b"".join(chain.from_iterable(parts[at : at + 2] for at in places)))
