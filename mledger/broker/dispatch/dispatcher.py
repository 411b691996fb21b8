"""What every dispatcher is to the subscription that drives it (D1, D4, D5, D8, D9, D10).

The driver does all I/O and owns the clock; a dispatcher decides. After anything happens (a consumer comes, goes or
sends permits, entries are published, acknowledged or read) the driver calls `plan_read` until it is None:

    while (read := dispatcher.plan_read(now_ms)) is not None:
        rewind the cursor first if the read says so
        runs = the entries at read.positions, or from the cursor's read position on (None if that has to wait)
        dispatched = dispatcher.dispatch(read, runs, now_ms)
        move the cursor's read position to dispatched.read_from, if there is one
        write the deliveries

At most one normal and one replay read are in flight (D8). A read ends by `dispatch` (with no runs if nothing was
there) or by `failed_read`; a normal read that found nothing is planned again when entries are published. If a
consumer came or went meanwhile, the dispatcher drops what the read brought and the next one begins with a rewind.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mledger.broker.dispatch.consumer import DispatchConsumer
from mledger.broker.dispatch.rate_limiter import DispatchRateLimiter
from mledger.broker.dispatch.read_size import ReadSize
from mledger.broker.dispatch.settings import DispatchSettings
from mledger.broker.facts import FactsRun
from mledger.metastore.records.position import Position


class NextRead(NamedTuple):
    """A read that the driver does next.

    With `positions` None it is a normal read: at most `entries` entries and about `max_bytes` bytes, at least one
    entry, from the cursor's read position on; if `rewind`, the driver first moves that position back to the first
    entry that is not acknowledged. Else it is a replay read of exactly these positions, in order (D3); positions
    that turn out to be acknowledged are left out of what is dispatched.
    """

    entries: int
    max_bytes: int
    positions: Sequence[Position] | None
    rewind: bool
    number: int
    throttled: bool


class Delivery(NamedTuple):
    """Entries of one run that go to one consumer, in order, in one write.

    `run` is the index of the run in what was dispatched, `indexes` are those of the entries in the run: a `range`
    where they follow each other. `messages` were taken from the consumer's permits. `redeliveries` are the entries'
    redelivery counts, or None if all are 0.
    """

    consumer: DispatchConsumer
    run: int
    indexes: Sequence[int]
    messages: int
    redeliveries: Sequence[int] | None


class Dispatched(NamedTuple):
    """Who gets what of a read.

    `read_from`: entries from here on went to nobody; the next normal read begins here.
    """

    deliveries: Sequence[Delivery]
    read_from: Position | None = None


class ActiveNotice(NamedTuple):
    """A consumer of a failover subscription is to be told whether it is the active one (D2)."""

    consumer: DispatchConsumer
    is_active: bool


NOTHING = Dispatched(())


class Dispatcher(ABC):
    """Gives a subscription's entries to its consumers. Times are milliseconds, of one clock, never going back.

    Somebody may set the wall's clock: it is `wall_ahead_ms` ahead of that one, which the driver keeps up to date.
    """

    def __init__(self, settings: DispatchSettings, limiters: Iterable[DispatchRateLimiter] = ()) -> None:
        """`limiters`: the rates that apply, of broker, topic and subscription; `set_limiters` changes them."""
        self.settings = settings
        self.wall_ahead_ms = 0
        """By how much the wall's clock, by which entries are delayed, is ahead of the one of all other times."""
        self._limiters = tuple(limiters)
        self._size = ReadSize(settings)
        self._number = 0
        self._normal: NextRead | None = None  # in flight
        self._normal_is_stale = False
        self._rewind = True
        self.consumers: list[DispatchConsumer] = []
        self.returning: list[str] = []
        """The names of consumers that were closed together, and for which the others wait (D2)."""

    # -- consumers

    @abstractmethod
    def add(self, consumer: DispatchConsumer, now_ms: int) -> None:
        """A consumer subscribes. Raises ConsumerBusy or ConsumerNotAssignable, before any change."""

    @abstractmethod
    def remove(self, consumer: DispatchConsumer, now_ms: int) -> None:
        """A consumer is gone; what it holds unacknowledged goes to others. Does nothing for an unknown one."""

    def flow(self, consumer: DispatchConsumer, permits: int) -> None:
        """A consumer may be sent so many messages more (D1); a blocked one keeps them until it is unblocked."""
        consumer.permits += permits

    def notices(self, now_ms: int) -> list[ActiveNotice]:
        """Who is to be told now whether it is active; call it when consumers change and at `wake_at`."""
        return []

    # -- reads

    @abstractmethod
    def plan_read(self, now_ms: int, *, tailing: bool = False) -> NextRead | None:
        """The next read, or None: nobody may be sent anything, or enough reads are in flight (D1, D8).

        `tailing`: the cursor has no backlog (D5).
        """

    @abstractmethod
    def dispatch(self, read: NextRead, runs: Sequence[FactsRun], now_ms: int) -> Dispatched:
        """Divide what a read brought; consumers' permits and pending entries change at once.

        Raises ValueError if the read is not in flight.
        """

    def failed_read(self, read: NextRead, now_ms: int) -> None:
        """A read failed: try again at `wake_at`, with the least batch (D10). ValueError if it is not in flight."""
        self._end_read(read)
        self._size.failed(now_ms)

    @abstractmethod
    def wake_at(self, now_ms: int) -> int | None:
        """When to call `notices` and `plan_read` again even if nothing happens; None is never."""

    def rewind(self) -> None:
        """The cursor moved (seek, skip, reset): read again from its first entry that is not acknowledged."""
        self._rewind = True
        self._normal_is_stale = self._normal is not None

    # -- acknowledgements

    @abstractmethod
    def acknowledged(self, consumer: DispatchConsumer, positions: Sequence[Position]) -> None:
        """Entries are acknowledged as a whole; whoever holds them has them no longer."""

    @abstractmethod
    def acknowledged_part(self, consumer: DispatchConsumer, position: Position, messages: int) -> None:
        """So many messages more of a batch are acknowledged, not all (D4)."""

    @abstractmethod
    def acknowledged_to(self, position: Position) -> None:
        """Every entry up to `position` is acknowledged: by expiry, skipping or a cumulative acknowledgement."""

    @abstractmethod
    def redeliver(self, consumer: DispatchConsumer, positions: Sequence[Position] | None, epoch: int = 0) -> None:
        """A consumer wants these entries again, or with None all it holds; other entries than its own are ignored."""

    # -- for dispatchers

    def _plan_normal(self, messages: int, writable: bool, now_ms: int, tailing: bool) -> NextRead | None:
        """A normal read for so many permits, or None if one is in flight or a rate or a pause forbids it."""
        if self._normal is not None:
            return None
        limits = self._limits(messages, writable, now_ms, tailing)
        if limits is None:
            return None
        entries, max_bytes, throttled = limits
        self._number += 1
        self._normal = NextRead(entries, max_bytes, None, self._rewind, self._number, throttled)
        self._normal_is_stale = self._rewind = False
        return self._normal

    def _limits(self, messages: int, writable: bool, now_ms: int, tailing: bool) -> tuple[int, int, bool] | None:
        """Entries and bytes of the next read, and whether rates count it; None if nothing may be read now."""
        if now_ms < self._size.not_before_ms:
            return None
        max_bytes = self.settings.max_read_bytes
        throttled = bool(self._limiters) and (not tailing or self.settings.throttle_without_backlog)
        if throttled:
            for limiter in self._limiters:
                messages_left, bytes_left = limiter.messages_left(now_ms), limiter.bytes_left(now_ms)
                if messages_left == 0 or bytes_left == 0:
                    return None
                messages = messages if messages_left is None else min(messages, messages_left)
                max_bytes = max_bytes if bytes_left is None else min(max_bytes, bytes_left)
        return (self._size.entries(messages, max_bytes) if writable else 1), max_bytes, throttled

    def _end_read(self, read: NextRead) -> bool:
        """A normal read is no longer in flight; returns whether what it brought still counts."""
        if read is not self._normal:
            raise ValueError(f"{read} is not in flight")
        self._normal = None
        return not self._normal_is_stale

    def _count(self, read: NextRead, entries: int, messages: int, size: int) -> None:
        """Entries of a read went out: count them against the rates."""
        if read.throttled:
            units = entries if self.settings.throttle_entries else messages
            for limiter in self._limiters:
                limiter.take(units, size)

    def _free_at_ms(self, now_ms: int) -> int:
        """The first time at which a pause after a failed read and all rates allow a read."""
        return max([now_ms, self._size.not_before_ms, *(limiter.free_at_ms(now_ms) for limiter in self._limiters)])

    def configure(self, settings: DispatchSettings) -> None:
        """Other limits apply from now on; how much is read and how keys are divided stays as it was."""
        self.settings = settings

    def set_limiters(self, limiters: Iterable[DispatchRateLimiter]) -> None:
        """Other rates apply from now on."""
        self._limiters = tuple(limiters)
