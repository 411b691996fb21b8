"""How much to read: entries by permits and average batch, bytes, less after a failed read (D10)."""

from mledger.broker.dispatch.settings import DispatchSettings

_WEIGHT = 0.25  # of the newest read in the averages


class ReadSize:
    """The size of a dispatcher's next read, from what the last ones brought."""

    __slots__ = ("_backoff_ms", "_bytes_per_entry", "_messages_per_entry", "_settings", "batch", "not_before_ms")

    def __init__(self, settings: DispatchSettings) -> None:
        self._settings = settings
        self._backoff_ms = 0
        self._messages_per_entry = 1.0
        self._bytes_per_entry = 0.0
        self.batch = settings.max_read_batch
        self.not_before_ms = 0

    def entries(self, messages: int, max_bytes: int) -> int:
        """How many entries to read for so many messages and bytes; at least 1."""
        entries = min(self.batch, -int(-messages // self._messages_per_entry))
        if self._bytes_per_entry * entries > max_bytes:
            entries = int(max_bytes // self._bytes_per_entry)
        return max(entries, 1)

    def came(self, entries: int, messages: int, size: int) -> None:
        """A read succeeded with so many entries, messages and bytes: the batch doubles back to the most."""
        if self._backoff_ms:
            self._backoff_ms //= 2
        if self.batch < self._settings.max_read_batch:
            self.batch = min(self.batch * 2, self._settings.max_read_batch)
        if not entries:
            return
        weight = _WEIGHT if self._bytes_per_entry else 1.0
        self._messages_per_entry += (messages / entries - self._messages_per_entry) * weight
        self._bytes_per_entry += (size / entries - self._bytes_per_entry) * weight

    def failed(self, now_ms: int) -> None:
        """A read failed: the batch falls to the least, and no read begins before `not_before_ms`."""
        self.batch = self._settings.min_read_batch
        least, most = self._settings.failure_backoff_ms, self._settings.max_failure_backoff_ms
        self._backoff_ms = min(max(self._backoff_ms * 2, least), most)
        self.not_before_ms = now_ms + self._backoff_ms
