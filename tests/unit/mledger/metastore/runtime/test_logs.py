import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.metastore.runtime.logs import JsonFormatter, event_fields


def lines_of(write):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    log = logging.Logger("mledger.bookie.server.test")
    log.addHandler(handler)
    write(log)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_becomes_an_object_with_its_fields():
    (line,) = lines_of(lambda log: log.warning("event=read_only value=%s free_bytes=%d why=%r", True, 7, "it's full"))
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "mledger.bookie.server.test",
        "message": 'event=read_only value=True free_bytes=7 why="it\'s full"',
        "event": "read_only",
        "value": True,
        "free_bytes": 7,
        "why": "it's full",
    }


def test_an_exception_stays_on_its_line():
    def write(log):
        try:
            raise OSError("no\nspace")
        except OSError:
            log.exception("event=journal_failed")

    (line,) = lines_of(write)
    assert "OSError: no\nspace" in line["exception"]


@pytest.mark.parametrize("message", ["hello", "two words", "t/ns/topic: no switch=1 to another", "Event=1", ""])
def test_a_sentence_is_no_event(message):
    assert event_fields(message) == {}


def test_the_client_s_events_have_fields_too():
    found = event_fields("bookie_failed bookie=127.0.0.1:3181 seconds=1.5 time=x")
    assert found == {"event": "bookie_failed", "bookie": "127.0.0.1:3181", "seconds": 1.5, "time_": "x"}


@given(st.text(max_size=60), st.text(max_size=20))
def test_any_message_is_one_line_of_json(message, value):
    (line,) = lines_of(lambda log: log.error("%s", message))
    assert line["message"] == message
    (line,) = lines_of(lambda log: log.error("event=x value=%r", value))
    assert line["value"] == value
