"""What a consumer may have whose connection takes no more now: one entry, and then nothing until it does (D9)."""

from collections.abc import Iterable

from mledger.broker.dispatch.consumer import DispatchConsumer


def permits_of(consumers: Iterable[DispatchConsumer], most: int) -> tuple[int, bool]:
    """The permits of those that may be sent messages, counted up to `most`, and whether one of them is writable.

    One that is not writable counts as one permit.
    """
    total, writable = 0, False
    for consumer in consumers:
        if consumer.available:
            total += consumer.permits if consumer.writable else 1
            writable = writable or consumer.writable
            if total >= most and writable:
                break
    return total, writable


class StuffedConsumers:
    """The consumers that were sent an entry while they were not writable."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[DispatchConsumer, None] = {}  # in order

    def sent(self, consumer: DispatchConsumer) -> None:
        """A consumer was sent entries."""
        consumer.stuffed = not consumer.writable
        if consumer.stuffed:
            self._waiting[consumer] = None

    def forget(self, consumer: DispatchConsumer) -> None:
        """A consumer is gone."""
        self._waiting.pop(consumer, None)

    def writable_again(self) -> list[DispatchConsumer]:
        """Those that are writable by now; each is named once."""
        if not self._waiting:
            return []
        found = [consumer for consumer in self._waiting if consumer.writable]
        for consumer in found:
            del self._waiting[consumer]
        return found
