"""How much of what a client sent is read at a time: the more clients send, the less of each.

Whoever sends as fast as it can would else have the broker for milliseconds each time, and others would wait.
"""

import time

LARGEST = 256 << 10
"""Bytes that are read at a time of a client that sends alone."""
SMALLEST = 32 << 10
"""Bytes that are read at a time of any client."""
SHARED_S = 0.01
"""Clients that send within that time share what is read of one that sends alone."""
steady_s = time.monotonic


def plan_turn(clients: int) -> int:
    """How many bytes are read at a time of each of so many clients."""
    return max(SMALLEST, LARGEST // max(1, clients))


class ReadTurns:
    """One buffer for all connections of a broker: each empties it at once."""

    def __init__(self) -> None:
        self.whole = memoryview(bytearray(LARGEST))
        """Where the next bytes of an encrypted connection go, whose transport has read them already. If it were held
        while some are left, it would drop them at the client's end."""
        self.buffer = self.whole
        """Where the next bytes of another connection go."""
        self._senders: set[int] = set()
        self._until_s = 0.0

    def take(self, sender: object, size: int) -> tuple[bytes, bool]:
        """The first bytes of the buffer, and whether the sender has had its turn and may have sent more."""
        data = bytes(self.whole[:size])
        turn = size == len(self.buffer) < LARGEST
        self._senders.add(id(sender))  # not itself: it may be gone before anybody sends again
        now_s = steady_s()
        if now_s >= self._until_s:
            self.buffer = self.whole[: plan_turn(len(self._senders))]
            self._senders.clear()
            self._until_s = now_s + SHARED_S
        return data, turn
