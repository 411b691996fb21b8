"""Reads a remote file ahead: a thread fetches the next blocks while the caller works on the present one.

Reading ahead begins with the second read in a row, so that a look at a file's head or end fetches nothing else. At most
BLOCKS_AHEAD blocks wait for the caller.
"""

import io
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO

BLOCK = 2 << 20
BLOCKS_AHEAD = 4


class FetchedFile(io.RawIOBase):
    """The bytes of `file`, which is closed with it. An error of a fetched block is raised by the read that needs it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._at = 0
        self._reads = 0  # in a row
        self._block = b""
        self._used = 0
        self._thread: ThreadPoolExecutor | None = None
        self._coming: deque[Future[bytes]] = deque()

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is; seeking drops what was fetched."""
        return True

    def tell(self) -> int:
        """The offset of the next byte that is read."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset from the start, from here or from the end."""
        self._drop()
        if whence == io.SEEK_CUR:
            offset, whence = self._at + offset, io.SEEK_SET
        self._at = self._file.seek(offset, whence)
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        """At most `size` bytes, at least one unless the file ends here; without a size, all up to the end."""
        if size is None or size < 0:
            return self._rest()
        self._reads += 1
        if self._reads == 1:
            data = self._file.read(size)
        else:
            if self._used == len(self._block):
                self._block, self._used = self._next(), 0
            data = self._block[self._used : self._used + size]
            self._used += len(data)
        self._at += len(data)
        return data

    def close(self) -> None:
        """Wait for the block that is being fetched, and close the file."""
        if not self.closed:
            self._drop()
            self._file.close()
        super().close()

    def _rest(self) -> bytes:
        if self._thread is not None:
            return b"".join(iter(lambda: self.read(BLOCK), b""))
        data = self._file.read()
        self._at += len(data)
        return data

    def _next(self) -> bytes:
        """The next block, empty at the file's end. The first of them is fetched alone."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
            self._coming.append(self._thread.submit(self._file.read, BLOCK))
        block = self._coming.popleft().result() if self._coming else b""
        if not block:
            return b""
        while len(self._coming) < BLOCKS_AHEAD:
            self._coming.append(self._thread.submit(self._file.read, BLOCK))
        return block

    def _drop(self) -> None:
        """End the thread; the file then stands anywhere."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
        self._thread = None
        self._coming.clear()
        self._block, self._used, self._reads = b"", 0, 0
