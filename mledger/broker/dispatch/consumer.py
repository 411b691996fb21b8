"""A consumer as dispatch sees it: permits, unacknowledged messages, limits (D1, D4, D9)."""

from collections.abc import Sequence

from mledger.broker.dispatch.key_range import KeyRange


class DispatchConsumer:
    """One consumer of a subscription.

    `key` is whatever the driver knows it by. `permits` are messages that it may still be sent; they can fall below
    zero by the last batch (D4). `epoch` goes out with its messages: the newest that the client asked for. The driver
    sets `writable`; the dispatcher changes the rest.
    """

    __slots__ = ("blocked", "epoch", "key", "key_ranges", "name", "permits", "priority", "unacked", "writable")

    def __init__(
        self, key: object, name: str, priority: int = 0, key_ranges: Sequence[KeyRange] = (), epoch: int = 0
    ) -> None:
        """A low `priority` goes first. `key_ranges`: the hashes that the client asked for, if it did."""
        self.key = key
        self.name = name
        self.priority = priority
        self.key_ranges = tuple(key_ranges)
        self.epoch = epoch
        self.permits = 0
        self.unacked = 0
        self.blocked = False
        self.writable = True

    def __repr__(self) -> str:
        blocked = ", blocked" if self.blocked else ""
        return f"DispatchConsumer({self.name!r}, permits {self.permits}, unacknowledged {self.unacked}{blocked})"

    @property
    def available(self) -> bool:
        """Whether it may be sent a message: it has permits and is not over its unacknowledged limit (D1)."""
        return self.permits > 0 and not self.blocked
