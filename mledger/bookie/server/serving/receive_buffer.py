"""The receive buffer of one connection: it grows with what arrives, not with what a length promises. No I/O."""

from mledger.bookie.server.serving.receive_room import ReceiveRoom, RoomUser

BUFFER = 1 << 20
"""Bytes of a busy connection's receive buffer; it grows where one frame is larger."""
FIRST_BUFFER = 64 << 10
"""Bytes of a receive buffer until one receive fills it: most connections are never busy."""

_GROWTH = 4  # a receive buffer holds at most this many times what has arrived of a larger frame


class ReceiveBuffer:
    """Bytes received and not taken yet: those of `data` from `start` to `filled`."""

    def __init__(self, room: ReceiveRoom, user: RoomUser) -> None:
        """What it has beyond FIRST_BUFFER bytes is taken from `room` for `user`."""
        self._room, self._user = room, user
        self.data, self._least = bytearray(FIRST_BUFFER), FIRST_BUFFER
        self.start = self.filled = self._dropped = 0
        self.next_frame = 0
        """Bytes of the frame at `start`; 0 while unknown."""

    def __len__(self) -> int:
        return self.filled - self.start

    @property
    def frame_at(self) -> int:
        """Where the first byte that is kept was in all that was received."""
        return self._dropped + self.start

    @property
    def full(self) -> bool:
        """Whether nothing can be received before `compact`."""
        return self.filled == len(self.data)

    def room(self) -> memoryview:
        """Where to receive."""
        return memoryview(self.data)[self.filled :]

    def received(self, count: int) -> None:
        """Note that so many bytes were received."""
        self.filled += count
        if self.filled == FIRST_BUFFER == self._least:
            self._least = BUFFER

    def compact(self) -> None:
        """Move the remaining bytes to the front of a buffer that fits the next frame, if there is room for that.

        If there is none, it stays full, and its user tries again later.
        """
        size, left = self._planned(), len(self)
        if size != len(self.data) and left <= size:
            larger = bytearray(size)
            larger[:left] = memoryview(self.data)[self.start : self.filled]
            self.data = larger
        elif self.start:
            self.data[:left] = self.data[self.start : self.filled]
        self._dropped += self.start
        self.start, self.filled = 0, left

    def end(self) -> None:
        """Give back the room."""
        self._room.give_back(self._user, len(self.data) - FIRST_BUFFER, all_of_it=True)
        self.data, self._least = bytearray(FIRST_BUFFER), FIRST_BUFFER
        self.start = self.filled = self.next_frame = 0

    def _planned(self) -> int:
        """The size to have from now on, for which room has been taken."""
        now, left, room = len(self.data), len(self), self._room
        size = FIRST_BUFFER if room.scarce and not left else self._least
        whole = max(size, self.next_frame)
        if self.next_frame > size:  # room comes with the bytes: a length alone costs a client nothing
            size = max(size, min(self.next_frame, max(_GROWTH * left, now)))
        if size <= now:
            if size < now and left <= size:
                room.give_back(self._user, now - size, all_of_it=size == FIRST_BUFFER)
                return size
            return now
        if room.take(self._user, size - now, whole=size >= self.next_frame > BUFFER):
            return size
        if self.next_frame <= now:
            return now
        if room.take(self._user, whole - now, whole=True):
            return whole
        room.wait(self._user)
        return now
