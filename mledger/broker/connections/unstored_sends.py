"""The sends of one connection to non-persistent topics that are in hand (D12)."""

import asyncio


class UnstoredSends:
    """Counts them; in hand is what came since the loop turned."""

    def __init__(self) -> None:
        self._in_hand = 0

    def take(self, sends: int, most: int) -> int:
        """How many of so many sends that came now may be taken. As in Pulsar that is up to one more than `most`."""
        if not self._in_hand:
            asyncio.get_running_loop().call_soon(self._end_turn)
        taken = max(0, min(sends, most + 1 - self._in_hand))
        self._in_hand += taken
        return taken

    def _end_turn(self) -> None:
        self._in_hand = 0
