"""A connection is read no more while one of its topics is over its publish rates."""

import asyncio
from types import SimpleNamespace

from mledger.broker.connections import publish_pause
from mledger.broker.connections.intake import Hold, Intake
from mledger.broker.connections.publish_pause import PublishPause
from tests.support.aio import run


class AskedLimits:
    """The limits of a topic that asks for these pauses, one after the other."""

    def __init__(self, *waits_ms):
        self.waits_ms, self.held_back = [*waits_ms], 0

    def wait_ms(self, _):
        return self.waits_ms.pop(0) if self.waits_ms else 0


def producers(*limits):
    return [SimpleNamespace(topic=SimpleNamespace(publish_limits=each)) for each in limits]


def an_intake():
    return Intake(SimpleNamespace(is_closing=lambda: False, pause_reading=lambda: None, resume_reading=lambda: None))


def test_reading_goes_on_once_all_topics_of_the_client_allow_it(monkeypatch):
    monkeypatch.setattr(publish_pause, "LONGEST_PAUSE_S", 0)
    published, other = AskedLimits(5, 5), AskedLimits(5, 5)

    async def main():
        intake = an_intake()
        pause = PublishPause(intake, lambda: producers(published, other, other))
        pause.keep_to(published)
        assert Hold.RATE in intake
        while Hold.RATE in intake:
            await asyncio.sleep(0)
        assert (published.held_back, other.held_back, other.waits_ms) == (1, 0, [])

    run(main())


def test_a_topic_that_another_client_fills_holds_back_nobody_who_publishes_elsewhere():
    published, other = AskedLimits(), AskedLimits(5)

    async def main():
        intake = an_intake()
        PublishPause(intake, lambda: producers(published, other)).keep_to(published)
        assert (Hold.RATE in intake, published.held_back) == (False, 0)

    run(main())
