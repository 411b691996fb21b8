"""`mledger broker run --explain`: prints what clients' requests do, step by step, as it happens."""

import json
from typing import TextIO

from mledger.events import Event
from mledger.metastore.records.paths import TopicName
from mledger.metastore.runtime.logs.loggers import JSON
from mledger.metastore.runtime.times import utc_text, wall_clock_ms


def plan_line(event: Event, now_ms: int, log_format: str) -> str:
    """An event at `now_ms` since 1970 as a line for people, or as an object for programs (`log_format` JSON)."""
    at = utc_text(now_ms)
    topic = str(TopicName.of_managed_ledger(event.topic))
    if log_format == JSON:
        return json.dumps({"time": at, "topic": topic, "event": event.name, "text": event.describe()})
    return f"{at}  {topic}  {event.describe()}"


class PrintedTimeline:
    """An EventSink that writes each event as a line; it gives up once nobody reads them any more."""

    def __init__(self, out: TextIO, log_format: str) -> None:
        self._out: TextIO | None = out
        self._format = log_format

    def __call__(self, event: Event) -> None:
        """Write one event."""
        if self._out is None:
            return
        try:
            self._out.write(plan_line(event, wall_clock_ms(), self._format) + "\n")
            self._out.flush()
        except OSError:
            self._out = None
