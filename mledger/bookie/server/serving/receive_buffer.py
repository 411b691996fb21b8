"""The receive buffer of one connection: it grows with what arrives, not with what a length promises. No I/O."""

BUFFER = 1 << 20
"""Bytes of a busy connection's receive buffer; it grows where one frame is larger."""
FIRST_BUFFER = 64 << 10
"""Bytes of a receive buffer until one receive fills it: most connections are never busy."""

_GROWTH = 4  # a receive buffer holds at most this many times what has arrived of a larger frame


class ReceiveBuffer:
    """Bytes received and not taken yet: those of `data` from `start` to `filled`."""

    def __init__(self) -> None:
        self.data, self._least = bytearray(FIRST_BUFFER), FIRST_BUFFER
        self.start = self.filled = 0
        self.next_frame = 0
        """Bytes of the frame at `start`; 0 while unknown."""

    def __len__(self) -> int:
        return self.filled - self.start

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
        """Move the remaining bytes to the front of a buffer that fits the next frame."""
        size, left = self._least, len(self)
        if self.next_frame > size:  # room comes with the bytes: a length alone costs a client nothing
            size = max(size, min(self.next_frame, max(_GROWTH * left, len(self.data))))
        if size != len(self.data) and left <= size:
            larger = bytearray(size)
            larger[:left] = memoryview(self.data)[self.start : self.filled]
            self.data = larger
        elif self.start:
            self.data[:left] = self.data[self.start : self.filled]
        self.start, self.filled = 0, left
