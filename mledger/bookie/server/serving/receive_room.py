"""Limits the receive buffers of all connections together: else each frame that has begun takes its whole size.

- Up to half of the room, a buffer grows with what arrives. Beyond, it gets the room of its whole frame at once, or
  none: so what has been given can always end, and buffers that wait for more never keep others waiting for good.
- A connection without room is not read from. Those that wait have their turn in order.
- While some wait, a client that has the room for its frame and does not send the rest of it in time is cut off.
"""

import asyncio
from typing import Protocol

from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

MOST_BYTES = 512 << 20
"""Bytes of all receive buffers, beyond those that every connection has."""
FRAMES = 4
"""As many frames of the largest size have room in any case."""
HOLD_S = 10.0
"""How long a client may take for the rest of its frame while others wait for room, in seconds."""
_LOOK_S = 1.0


class RoomUser(Protocol):
    """A connection with a receive buffer."""

    @property
    def awaited_frame(self) -> int:
        """Where, in all that its client sent, the frame begins of which only bytes are missing; -1 if there is none."""

    def make_room(self) -> None:
        """Try again to have its buffer grow."""

    def abort(self) -> None:
        """End the connection."""


class ReceiveRoom:
    """What all receive buffers take. Lives on the loop."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        """Give `most` bytes at most."""
        self._most, self.taken = most, 0
        self._waiting: dict[RoomUser, None] = {}
        self._users: set[RoomUser] = set()
        self._awaited: dict[RoomUser, tuple[int, float]] = {}  # frames, and since when others wait for their ends
        self._timer: asyncio.TimerHandle | None = None
        self._waking = False

    @property
    def scarce(self) -> bool:
        """Whether more than half is taken: buffers that are not needed are to be given back."""
        return self.taken > self._most // 2

    def take(self, user: RoomUser, size: int, *, whole: bool) -> bool:
        """Whether `user` may have `size` bytes more; `whole`: they are all that its next frame needs."""
        if self.taken + size > (self._most if whole else self._most // 2):
            return False
        self.taken += size
        self._waiting.pop(user, None)
        self._users.add(user)
        return True

    def give_back(self, user: RoomUser, size: int, *, all_of_it: bool) -> None:
        """Take back `size` bytes of a user's; `all_of_it`: it has no more."""
        self.taken -= size
        if all_of_it:
            self._waiting.pop(user, None)
            self._users.discard(user)
        if self._waiting and not self._waking:
            self._waking = True
            asyncio.get_running_loop().call_soon(self._wake)

    def wait(self, user: RoomUser) -> None:
        """Have `user` try again when there is room."""
        self._waiting.setdefault(user)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def _wake(self) -> None:
        self._waking = False
        for user in list(self._waiting):
            self._waiting.pop(user, None)
            user.make_room()
            if user in self._waiting:
                self._waiting = {user: None, **self._waiting}
                break

    def _look(self) -> None:
        """End connections that keep others waiting."""
        self._timer = None
        if not self._waiting:
            self._awaited.clear()
            return
        loop = asyncio.get_running_loop()
        now, before = loop.time(), self._awaited
        self._awaited = {}
        for user in self._users - self._waiting.keys():
            frame = user.awaited_frame
            if frame >= 0:
                known, since = before.get(user, (frame, now))
                self._awaited[user] = frame, since if known == frame else now
        cut = [user for user, (_, since) in self._awaited.items() if now - since >= HOLD_S]
        if cut:
            log.warning("slow_clients_cut_off", connections=len(cut), waiting=len(self._waiting), bytes=self.taken)
        for user in cut:
            user.abort()
        self._timer = loop.call_later(_LOOK_S, self._look)
