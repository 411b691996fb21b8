"""Logs missing and damaged copies: the first of each ledger, bookie and reason in full, the others as totals.

A bookie that lost its disk lacks a copy at every read: one line for each would hide everything else.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable

from msgspec import Struct

from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

SUMMARY_S = 60.0
_MOST_TOLD = 10_000
_MOST_KEPT = 1000


class BadReplica(Struct, frozen=True):
    """A bookie whose copy of an entry is missing or fails its digest, while the ledger has that entry."""

    ledger_id: int
    entry: int
    bookie_id: str
    reason: str


BadReplicaSink = Callable[[BadReplica], None]


class BadReplicas:
    """The bad copies that a client has found: `on_found` gets every one; the log the first of each kind, and totals."""

    def __init__(self, summary_s: float = SUMMARY_S) -> None:
        """Log totals of repeated copies every `summary_s` seconds, and on `close`."""
        self._summary_s = summary_s
        self._last: deque[BadReplica] = deque(maxlen=_MOST_KEPT)
        self.on_found: BadReplicaSink | None = None
        self._told: OrderedDict[tuple[int, str, str], None] = OrderedDict()
        self._again: dict[tuple[str, str], tuple[int, set[int]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def last(self) -> list[BadReplica]:
        """The last thousand bad copies."""
        return list(self._last)

    def note(self, replica: BadReplica) -> None:
        """Record a bad copy."""
        self._last.append(replica)
        kind = replica.ledger_id, replica.bookie_id, replica.reason
        if kind in self._told:
            self._told.move_to_end(kind)
            self._count(replica)
        else:
            self._told[kind] = None
            if len(self._told) > _MOST_TOLD:
                self._told.popitem(last=False)
            log.warning(
                "bad_replica",
                ledger=replica.ledger_id,
                entry=replica.entry,
                bookie=replica.bookie_id,
                reason=replica.reason,
            )
        if self.on_found is not None:
            self.on_found(replica)

    def close(self) -> None:
        """Log the totals that are not logged yet."""
        if self._timer is not None:
            self._timer.cancel()
        self._sum_up()

    def _count(self, replica: BadReplica) -> None:
        copies, ledgers = self._again.get((replica.bookie_id, replica.reason), (0, set()))
        ledgers.add(replica.ledger_id)
        self._again[replica.bookie_id, replica.reason] = copies + 1, ledgers
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._summary_s, self._sum_up)

    def _sum_up(self) -> None:
        self._timer = None
        again, self._again = self._again, {}
        for (bookie, reason), (copies, ledgers) in again.items():
            log.warning("bad_replicas_met_again", bookie=bookie, reason=reason, times=copies, ledgers=len(ledgers))
