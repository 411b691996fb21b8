"""Rates of a topic, a subscription or a broker, in messages and bytes (D5); the time is an argument."""

from collections.abc import Iterable


class _Bucket:
    """Tokens that come back at a steady rate, at most those of one period; a debt is paid before more go out."""

    __slots__ = ("_at_ms", "_most", "_per_ms", "_tokens")

    def __init__(self, per_period: float, period_ms: int, now_ms: int) -> None:
        self._per_ms = per_period / period_ms
        self._most = float(per_period)
        self._tokens = float(per_period)
        self._at_ms = now_ms

    def left(self, now_ms: int) -> float:
        """The tokens there are now; at most 0 while there is a debt."""
        if now_ms > self._at_ms:
            self._tokens = min(self._most, self._tokens + (now_ms - self._at_ms) * self._per_ms)
            self._at_ms = now_ms
        return self._tokens

    def take(self, count: int) -> None:
        """Count tokens as used; they may fall below 0."""
        self._tokens -= count

    def enough_at_ms(self, now_ms: int) -> int:
        """The first time at which there is one token."""
        missing = min(1.0, self._most) - self.left(now_ms)
        return now_ms if missing <= 0 else now_ms + max(1, -int(-missing // self._per_ms))


class DispatchRateLimiter:
    """A dispatch rate in messages and bytes a period (D5).

    A read may take what is left; what it brings beyond that is a debt, paid before the next one. One limiter can
    serve several dispatchers: those of a topic share the topic's.
    """

    __slots__ = ("_bytes", "_messages")

    def __init__(
        self,
        messages: int | None = None,
        size: int | None = None,
        *,
        period_ms: int = 1_000,
        now_ms: int = 0,
    ) -> None:
        """At most `messages` and `size` bytes every `period_ms`; None, 0 and -1 are no limit, as in Pulsar's policies.

        Raises ValueError if the period is not positive.
        """
        if period_ms <= 0:
            raise ValueError(f"the period of a dispatch rate is {period_ms} ms: it must be positive")
        self._messages = _Bucket(messages, period_ms, now_ms) if messages and messages > 0 else None
        self._bytes = _Bucket(size, period_ms, now_ms) if size and size > 0 else None

    def messages_left(self, now_ms: int) -> int | None:
        """How many messages may be read now, 0 for none; None is no limit."""
        return None if self._messages is None else max(0, int(self._messages.left(now_ms)))

    def bytes_left(self, now_ms: int) -> int | None:
        """How many bytes may be read now, 0 for none; None is no limit."""
        return None if self._bytes is None else max(0, int(self._bytes.left(now_ms)))

    def take(self, messages: int, size: int, now_ms: int | None = None) -> None:
        """Count messages and bytes as dispatched; give the time if it was not asked what is left."""
        for bucket, count in ((self._messages, messages), (self._bytes, size)):
            if bucket is not None:
                if now_ms is not None:
                    bucket.left(now_ms)
                bucket.take(count)

    def free_at_ms(self, now_ms: int) -> int:
        """The first time, not before `now_ms`, at which a message may be read."""
        buckets = (bucket for bucket in (self._messages, self._bytes) if bucket is not None)
        return max((bucket.enough_at_ms(now_ms) for bucket in buckets), default=now_ms)


def wait_ms(limiters: Iterable[DispatchRateLimiter], now_ms: int) -> int:
    """For how long these allow nothing, in milliseconds."""
    return max((limiter.free_at_ms(now_ms) - now_ms for limiter in limiters), default=0)
