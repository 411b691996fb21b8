"""A consumer as dispatch sees it: permits, unacknowledged messages, limits (D1, D4, D9), and why one is not taken."""

from bisect import bisect_right
from collections.abc import Sequence

from mledger.broker.dispatch.keys.key_hash import KeyRange
from mledger.broker.dispatch.waiting.pending_entries import PendingEntries
from mledger.metastore.errors import MledgerError


class DispatchError(MledgerError):
    """The base class of the errors of dispatchers; the protocol answers each by Pulsar's code of the same name."""


class ConsumerBusy(DispatchError):
    """The subscription is exclusive and has a consumer, or has as many as it may: close one, or share it (D2)."""


class ConsumerNotAssignable(DispatchError):
    """No key range can be assigned to the consumer: its ranges overlap those of another, or are not given (D2)."""


class DispatchConsumer:
    """One consumer of a subscription.

    `key` is whatever the driver knows it by. `permits` are messages that it may still be sent; they can fall below
    zero by the last batch (D4). `epoch` goes out with its messages: the newest that the client asked for. `pending`
    is what it holds, `unacked` how many messages of that are not acknowledged, `blocked` whether these are too many
    (D1); they stay empty where nothing is tracked. The driver sets `writable`; the dispatcher changes the rest.
    """

    __slots__ = (
        "_ends",
        "_starts",
        "blocked",
        "epoch",
        "key",
        "key_ranges",
        "name",
        "pending",
        "permits",
        "priority",
        "queued",
        "stuffed",
        "unacked",
        "writable",
    )

    def __init__(
        self, key: object, name: str, priority: int = 0, key_ranges: Sequence[KeyRange] = (), epoch: int = 0
    ) -> None:
        """A low `priority` goes first. `key_ranges`: the hashes that the client asked for, if it did."""
        self.key = key
        self.name = name
        self.priority = priority
        self.key_ranges = tuple(key_ranges)
        self._starts, self._ends = _merged(self.key_ranges)
        self.epoch = epoch
        self.permits = 0
        self.unacked = 0
        self.blocked = False
        self.writable = True
        self.stuffed = False  # was not writable when it was last sent a message
        self.queued = False  # waits for its turn
        self.pending = PendingEntries()

    def __repr__(self) -> str:
        blocked = ", blocked" if self.blocked else ""
        return f"DispatchConsumer({self.name!r}, permits {self.permits}, unacknowledged {self.unacked}{blocked})"

    @property
    def available(self) -> bool:
        """Whether it may be sent a message: it has permits, not too much unacknowledged, and is writable (D1, D9).

        One that is not writable may have one message.
        """
        return self.permits > 0 and not self.blocked and (self.writable or not self.stuffed)

    def asks_for(self, key_hash: int) -> bool:
        """Whether a hash is in one of its key ranges."""
        at = bisect_right(self._starts, key_hash)
        return at > 0 and key_hash <= self._ends[at - 1]


def _merged(ranges: Sequence[KeyRange]) -> tuple[list[int], list[int]]:
    """The starts and the ends of ranges that cover the same hashes and do not overlap, in order."""
    starts: list[int] = []
    ends: list[int] = []
    for start, end in sorted(each for each in ranges if each.start <= each.end):
        if ends and start <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)
    return starts, ends
