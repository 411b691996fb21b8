"""What all subscriptions of a broker together hold of what was read ahead of their dispatchers.

Whoever would read ahead may come to hold an eighth of what is free then. So the more of them hold something, the less
each gets; those whose consumers have stalled never hold all, and what there is never runs out.
"""

SHARE = 8
LEAST = 1 << 16
"""With less room, in bytes, a subscription does not read ahead: it reads what its dispatcher asked for."""


class ReadAheadMemory:
    """At most `limit` bytes; 0 is no limit. `held` counts what is on its way too."""

    __slots__ = ("_limit", "held")

    def __init__(self, limit: int = 0) -> None:
        self._limit = limit
        self.held = 0

    def room(self, own: int) -> int | None:
        """How much more a subscription that holds `own` bytes may hold, 0 if that is little; None: as much as it likes.

        Args:
            own: what it holds by now, in bytes.
        """
        if not self._limit:
            return None
        room = (self._limit - self.held) // SHARE - own
        return room if room >= LEAST else 0
