"""Warnings about acknowledgements, of which a client can send hundreds of thousands a second: a line for many."""

from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.times import steady_ms

log = get_logger(__name__)

EVERY_MS = 10_000


class AckWarnings:
    """The warnings of one subscription; of each event one line in ten seconds, which says how many there were."""

    def __init__(self, topic: object, subscription: str) -> None:
        self._fields = {"topic": topic, "subscription": subscription}
        self._told: dict[str, int] = {}
        self._untold: dict[str, int] = {}

    def warn(self, event: str, **fields: object) -> None:
        """Log the event, the first time and then with `times`: how many there were since the line before."""
        times, now = self._untold.get(event, 0) + 1, steady_ms()
        if event in self._told and now - self._told[event] < EVERY_MS:
            self._untold[event] = times
            return
        self._told[event], self._untold[event] = now, 0
        log.warning(event, **self._fields, **fields, times=times)
