"""Whether a client's requests are read: any of several reasons holds them back."""

import asyncio
from enum import Enum, auto


class Hold(Enum):
    """Why no more is read."""

    PENDING = auto()
    """Too much is received and not stored yet."""
    RATE = auto()
    """A topic's publish rate asks for a pause."""
    REQUESTS = auto()
    """Requests that were read wait to be served."""
    TURN = auto()
    """It has sent all that is read at once: others have their turns."""
    ANSWERS = auto()
    """The client has left too many answers."""


class Intake:
    """Reads from a transport unless a reason holds it back."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._reasons: set[Hold] = set()

    def __contains__(self, reason: Hold) -> bool:
        return reason in self._reasons

    @property
    def held_back(self) -> bool:
        """Whether the broker has a reason of its own, not only a client that takes no answers."""
        return not self._reasons <= {Hold.ANSWERS}

    def hold(self, reason: Hold) -> None:
        """Read no more until `reason` is released."""
        if not self._reasons and not self._transport.is_closing():
            self._transport.pause_reading()
        self._reasons.add(reason)

    def release(self, reason: Hold) -> None:
        """Read on, unless there is another reason not to."""
        if reason in self._reasons:
            self._reasons.discard(reason)
            if not self._reasons and not self._transport.is_closing():
                self._transport.resume_reading()
