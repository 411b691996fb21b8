"""Pauses the reading of a connection that publishes more than the rates of its topics, or of the broker, allow."""

import asyncio
from collections.abc import Callable, Iterable

from mledger.broker.connections.intake import Hold, Intake
from mledger.broker.topics.producers.producer import Producer
from mledger.broker.topics.producers.publish_limits import PublishLimits
from mledger.metastore.runtime.times import steady_ms

LONGEST_PAUSE_S = 1.0
"""Policies that allow more are noticed after that time at the latest."""


class PublishPause:
    """Holds the intake back; `producers` gives those of the client."""

    def __init__(self, intake: Intake, producers: Callable[[], Iterable[Producer]]) -> None:
        self._intake, self._producers = intake, producers
        self._timer: asyncio.TimerHandle | None = None

    def keep_to(self, limits: PublishLimits) -> None:
        """Read no more while the topic with these limits, to which the client has published, is over them."""
        if Hold.RATE not in self._intake and limits.wait_ms(steady_ms()) > 0:
            limits.held_back += 1
            self._pause()

    def stop(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()

    def _pause(self) -> None:
        """Read on once the limits of all topics allow it."""
        now_ms = steady_ms()
        limits = {each.topic.publish_limits for each in self._producers()}
        wait_ms = max((each.wait_ms(now_ms) for each in limits), default=0)
        if wait_ms > 0:
            self._intake.hold(Hold.RATE)
            pause_s = min(wait_ms / 1000, LONGEST_PAUSE_S)
            self._timer = asyncio.get_running_loop().call_later(pause_s, self._pause)
        else:
            self._intake.release(Hold.RATE)
