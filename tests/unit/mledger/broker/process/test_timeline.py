"""How `mledger broker run --explain` writes events."""

import json

from mledger.broker.process.timeline import PrintedTimeline, plan_line
from mledger.events import Initialized

EVENT = Initialized("public/default/persistent/orders")


class ClosedPipe:
    """A stream whose reader is gone; counts how often it is written to."""

    def __init__(self) -> None:
        self.writes = 0

    def write(self, text: str) -> None:
        self.writes += 1
        raise BrokenPipeError


def test_an_event_is_a_line_with_time_and_topic() -> None:
    assert plan_line(EVENT, 1_500, "text") == (
        "1970-01-01T00:00:01.500Z  persistent://public/default/orders  "
        "Initialized managed ledger public/default/persistent/orders"
    )


def test_programs_get_an_object() -> None:
    assert json.loads(plan_line(EVENT, 1_500, "json")) == {
        "time": "1970-01-01T00:00:01.500Z",
        "topic": "persistent://public/default/orders",
        "event": "initialized",
        "text": "Initialized managed ledger public/default/persistent/orders",
    }


def test_a_timeline_that_nobody_reads_is_given_up() -> None:
    gone = ClosedPipe()
    timeline = PrintedTimeline(gone, "text")  # type: ignore[arg-type]
    timeline(EVENT)
    timeline(EVENT)
    assert gone.writes == 1
