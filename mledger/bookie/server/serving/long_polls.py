"""Long polls: reads that wait until a ledger's last add confirmed passes the one their client knows, or time out."""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from msgspec import Struct, field

from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

K = TypeVar("K")

MOST_WAITING = 65_536
"""The most reads that wait at one bookie; one more is answered at once."""
LONGEST_S = 600.0
"""The longest that a read waits, in seconds, whatever it asks for."""
MOST_UNSENT = 32 << 20
"""Bytes of entries in the answers to woken reads that their clients have not taken yet."""


class AnswerReceiver(Protocol):
    """A client that gets answers."""

    @property
    def unsent(self) -> int:
        """Bytes of answers that it has not taken yet."""


class AnswerRoom:
    """Limits the entries in the answers to woken reads: one add answers all of them before any client takes one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int = MOST_UNSENT) -> None:
        self._loop, self._most = loop, most
        self._receivers: set[AnswerReceiver] = set()
        self._taken, self._counted = 0, False

    def take(self, receiver: AnswerReceiver, size: int) -> bool:
        """Whether the answer to `receiver` may hold an entry of `size` bytes."""
        if self._taken + size > self._most and not self._counted:
            self._receivers = {each for each in self._receivers if each.unsent}
            self._taken = sum(each.unsent for each in self._receivers)
            self._counted = True  # once in a step of the loop: until its end, nothing is sent
            self._loop.call_soon(self._count_again)
        if self._taken + size > self._most:
            return False
        self._taken += size
        self._receivers.add(receiver)
        return True

    def forget(self, receiver: object) -> None:
        """Drop a client that has disconnected."""
        self._receivers.discard(receiver)

    def _count_again(self) -> None:
        self._counted = False


class LongPoll(Struct, eq=False):
    """One waiting read. `wake` is called once, with whether the last add confirmed has advanced."""

    client: object
    ledger: int
    previous: int
    wake: Callable[[bool], None]
    timer: asyncio.TimerHandle | None = field(default=None)


class LongPolls:
    """The waiting reads of a bookie. Lives on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int = MOST_WAITING) -> None:
        self._loop, self._most = loop, most
        self._by_ledger: dict[int, set[LongPoll]] = {}
        self._by_client: dict[object, set[LongPoll]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def wait(self, client: object, ledger: int, previous: int, wait_s: float, wake: Callable[[bool], None]) -> bool:
        """Register `wake` for a waiting read; False when too many wait."""
        if self._count >= self._most:
            return False
        poll = LongPoll(client, ledger, previous, wake)
        poll.timer = self._loop.call_later(min(max(wait_s, 0.0), LONGEST_S), self._end, poll, False)
        self._by_ledger.setdefault(ledger, set()).add(poll)
        self._by_client.setdefault(client, set()).add(poll)
        self._count += 1
        return True

    def advance(self, ledger: int, confirmed: int) -> None:
        """Wake the reads of a ledger that know less than `confirmed`."""
        if not self._count:
            return
        for poll in [poll for poll in self._by_ledger.get(ledger, ()) if poll.previous < confirmed]:
            self._end(poll, True)

    def forget(self, client: object) -> None:
        """Drop the reads of a client that has disconnected."""
        for poll in list(self._by_client.get(client, ())):
            self._remove(poll)

    def _end(self, poll: LongPoll, advanced: bool) -> None:
        """Wake a read; what fails there concerns neither the other reads nor the writer whose add wakes them."""
        self._remove(poll)
        try:
            poll.wake(advanced)
        except Exception as error:
            log.exception("long_poll_not_answered", ledger=poll.ledger, error=error)

    def _remove(self, poll: LongPoll) -> None:
        if poll.timer is not None:
            poll.timer.cancel()
        _take_out(self._by_ledger, poll.ledger, poll)
        _take_out(self._by_client, poll.client, poll)
        self._count -= 1


def _take_out(polls: dict[K, set[LongPoll]], key: K, poll: LongPoll) -> None:
    polls[key].discard(poll)
    if not polls[key]:
        del polls[key]
