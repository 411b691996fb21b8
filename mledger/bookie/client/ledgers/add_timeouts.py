"""Time-outs of one ledger's adds: reports a bookie that owes acknowledgements and sends none (Q11).

The clock starts with any change after which a bookie owes something: entries sent, or sent again to a new member. It
stops by itself once no bookie owes anything.
"""

import asyncio
from collections.abc import Callable, Mapping, Sized

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.connections.connection import BookieConnection
from mledger.bookie.client.plans.late_bookies import AddStanding, ProgressMark, plan_late
from mledger.bookie.client.plans.quorum import WriteQuorum

_CHECKS = 4  # checks per time-out
_LONGEST_CHECK_S = 1.0

Late = dict[int, float]
"""Ensemble indexes of late bookies, and the time-out that each has exceeded, in seconds."""


class AddProgress:
    """Watches the progress of one ensemble's bookies; owned by one `Replication`."""

    def __init__(
        self,
        quorum: WriteQuorum,
        config: ClientConfig,
        members: Mapping[BookieConnection, int],
        waiting: Sized,
        on_late: Callable[[Late], None],
    ) -> None:
        """`members` are the connections in place, with their indexes, and `waiting` the incomplete batches.

        Both are read again at each check.
        """
        self._quorum, self._config, self._members, self._waiting, self._on_late = (
            quorum,
            config,
            members,
            waiting,
            on_late,
        )
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._marks = [ProgressMark(0, 0.0)] * quorum.ensemble_size

    def joined(self, index: int) -> None:
        """Note that a bookie has taken its place at `index`: its time starts now."""
        self._marks[index] = ProgressMark(self._quorum.watermark(index), self._loop.time())

    def start(self) -> None:
        """Start checking, unless it has started: from now on bookies may owe something."""
        if self._timer is None:
            for index in range(self._quorum.ensemble_size):
                self.joined(index)
            self._look_later()

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_later(self) -> None:
        shortest = min(self._config.add_timeout_s, self._config.stall_timeout_s)
        self._timer = self._loop.call_later(min(shortest / _CHECKS, _LONGEST_CHECK_S), self._look)

    def _look(self) -> None:
        self._timer = None
        now, late, owing = self._loop.time(), Late(), False
        for connection, index in self._members.items():
            standing = self._standing(connection, index)
            owing = owing or standing.owes
            if standing.starts_anew:
                self.joined(index)
                continue
            if standing.batches_wait:
                connection.tell_waiting(now - max(standing.mark.since, connection.heard_at))
            limit = plan_late(standing, now, self._config.add_timeout_s, self._config.stall_timeout_s)
            if limit is not None:
                late[index] = limit
        if owing:
            self._look_later()
        if late:
            self._on_late(late)

    def _standing(self, connection: BookieConnection, index: int) -> AddStanding:
        return AddStanding(
            self._marks[index],
            self._quorum.watermark(index),
            self._quorum.outstanding(index),
            connection.congested,
            bool(self._waiting),
            connection.acknowledged_at,
        )
