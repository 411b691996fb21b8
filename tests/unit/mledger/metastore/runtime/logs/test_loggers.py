"""Events through Python's logging: a line of text, a JSON object, or nothing while their level is off."""

import io
import json
import logging
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.metastore.runtime.logs.loggers import JSON, TEXT, EventLogger, format_event, formatter, get_logger

NAME = "mledger.bookie.server.test"
FIELD = re.compile(r'((?:[^ "=]|"(?:[^"\\]|\\.)*")+)=("(?:[^"\\]|\\.)*"|[^ "]*)(?: |$)')
HOSTILE = [
    "",
    " ",
    "a b",
    "a=b",
    'a"b',
    "a\\nb",
    "a\nb\r\n",
    "%s %d %",
    "\x1b[31mred\x1b[0m",
    "\udc80",
    "\u2028\x85",
    "\0",
]
HEAD = {"time", "level", "logger", "event"}
TAKEN = HEAD | {"exception", "exc_info", "stack_info", "_record", "_from_structlog"}


class LoggedLines:
    """A logger that nothing else configures, and the lines that a format makes of its events."""

    def __init__(self, log_format, level=logging.DEBUG):
        self.stream = io.StringIO()
        handler = logging.StreamHandler(self.stream)
        handler.setFormatter(formatter(log_format))
        logger = logging.Logger(NAME, level)
        logger.addHandler(handler)
        self.log = EventLogger(logger)
        self.python_log = logger

    def line(self):
        (line,) = self.stream.getvalue().splitlines()
        return line


def as_json(**fields):
    written = LoggedLines(JSON)
    written.log.info("tried", **fields)
    return {key: value for key, value in json.loads(written.line()).items() if key not in HEAD}


def as_text(**fields):
    written = LoggedLines(TEXT)
    written.log.info("tried", **fields)
    found = FIELD.findall(written.line())
    assert [key for key, _ in found[:4]] == ["time", "level", "logger", "event"]
    return {word(key): word(value) for key, value in found[4:]}


def word(text):
    return json.loads(text) if text.startswith('"') else text


def test_an_event_is_an_object_with_its_fields():
    written = LoggedLines(JSON)
    written.log.warning("read_only", value=True, free_bytes=7, reason="it's full")
    said = json.loads(written.line())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", said.pop("time"))
    assert said == {
        "level": "warning",
        "logger": NAME,
        "event": "read_only",
        "value": True,
        "free_bytes": 7,
        "reason": "it's full",
    }


def test_an_event_is_a_line_of_pairs():
    written = LoggedLines(TEXT)
    written.log.warning("read_only", value=True, free_bytes=7, reason="disk full, make room", bookies=["b1:1", "b2:1"])
    time, rest = written.line().split(" ", 1)
    assert re.fullmatch(r"time=\S+Z", time)
    assert rest == (
        f'level=warning logger={NAME} event=read_only value=true free_bytes=7 reason="disk full, make room" '
        "bookies=b1:1,b2:1"
    )


@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_value_stays_on_its_line_and_is_read_back(value):
    assert as_json(value=value) == {"value": value}
    assert as_text(value=value) == {"value": value}


@pytest.mark.parametrize("key", [*HOSTILE, "self", "msg", "args", "message", "exc_text", "name"])
def test_a_hostile_name_stays_on_its_line_and_is_read_back(key):
    assert as_json(**{key: 1}) == {key: 1}
    assert as_text(**{key: 1}) == {key: "1"}


@pytest.mark.parametrize("key", ["time", "level", "logger", "event", "exception", "_record", "_from_structlog"])
def test_a_field_with_a_reserved_name_is_renamed(key):
    assert as_json(**{key: 1, f"{key}_": 2}) == {f"{key}_": 1, f"{key}__": 2}
    assert as_text(**{key: 1}) == {f"{key}_": "1"}


def test_an_error_is_logged_with_message_and_type_but_without_a_traceback():
    assert as_json(error=OSError(28, "no\nspace"), error_type=1) == {
        "error": "[Errno 28] no\nspace",
        "error_type": "OSError",
        "error_type_": 1,
    }
    assert as_text(error=Speechless()) == {
        "error": "<Speechless, of which str raises RuntimeError>",
        "error_type": "Speechless",
    }


class Speechless(Exception):
    def __str__(self):
        raise RuntimeError("nothing can be said of it")


@pytest.mark.parametrize("write", ["exception", "critical"])
def test_a_traceback_is_one_field(write):
    for log_format in (TEXT, JSON):
        written = LoggedLines(log_format)
        try:
            raise OSError("no\nspace")
        except OSError as error:
            more = {"exc_info": error} if write == "critical" else {}
            getattr(written.log, write)("journal_failed", error=error, **more)
        said = json.loads(written.line()) if log_format == JSON else dict(FIELD.findall(written.line()))
        exception = word(said["exception"]) if log_format == TEXT else said["exception"]
        assert exception.startswith("Traceback (most recent call last):\n")
        assert exception.endswith("OSError: no\nspace")


def test_lines_of_other_libraries_have_a_message_and_no_event():
    written = LoggedLines(JSON)
    written.python_log.warning("lost %s\n", "it")
    said = json.loads(written.line())
    assert (said["message"], said["level"], "event" in said) == ("lost it\n", "warning", False)
    written = LoggedLines(TEXT)
    written.python_log.warning("lost %s\n", "it")
    assert written.line().endswith(f'level=warning logger={NAME} message="lost it\\n"')


def test_other_handlers_receive_the_event_as_text(caplog):
    get_logger(NAME).warning("ledger_fenced", ledger=5, reason="100% sure")
    (record,) = caplog.records
    assert (record.getMessage(), record.name) == ('event=ledger_fenced ledger=5 reason="100% sure"', NAME)
    assert (record.funcName, record.module) == ("test_other_handlers_receive_the_event_as_text", "test_loggers")


def test_a_program_that_configures_no_logs_prints_nothing():
    program = (
        "from mledger.metastore.runtime.logs.loggers import get_logger\nget_logger('mledger.x').error('said', a=1)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_structlog_is_loaded_only_if_logs_are_configured_and_without_rich():
    program = (
        "import sys, mledger, mledger.metastore.runtime.logs.loggers as logs\n"
        "logs.get_logger('mledger.x').error('said', a=1)\n"
        "assert 'structlog' not in sys.modules\n"
        "logs.set_up_logging('text')\n"
        "assert 'structlog' in sys.modules and 'rich' not in sys.modules\n"
        "import rich\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_event_whose_level_is_off_costs_nothing():
    class Untouched:
        def __str__(self):
            raise AssertionError("looked at")

        __repr__ = __str__

    written = LoggedLines(TEXT, logging.CRITICAL)
    for write in (written.log.debug, written.log.info, written.log.warning, written.log.error):
        write("tried", value=Untouched())
    assert written.stream.getvalue() == ""


def test_a_single_event_has_the_same_form():
    said = json.loads(format_event(JSON, "error", "command_failed", {"message": "there is no topic", "exit_code": 3}))
    del said["time"]
    assert said == {
        "level": "error",
        "logger": "mledger",
        "event": "command_failed",
        "message": "there is no topic",
        "exit_code": 3,
    }


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
names = st.text().filter(lambda name: name not in TAKEN)


@given(st.dictionaries(names, values, max_size=4))
def test_every_field_is_read_back_from_json(fields):
    assert as_json(**fields) == fields


@given(st.dictionaries(names, st.text(), max_size=4))
def test_every_text_is_read_back_from_a_line_of_text(fields):
    assert as_text(**fields) == fields


CLOSED = """
import os, sys
from mledger.metastore.runtime.logs.loggers import open_standard_streams
for number in range(3):
    os.close(number)
sys.stdin = sys.stdout = sys.stderr = None
open_standard_streams()
with open(sys.argv[1], "w+") as file:
    os.write(2, b"of a library")
    print("a line", file=sys.stdout)
    print("a log", file=sys.stderr, flush=True)
    file.write(f"{file.fileno() > 2} {sys.stdin.read()!r}")
"""


def test_what_is_written_to_closed_streams_goes_into_no_file(tmp_path):
    done = subprocess.run([sys.executable, "-c", CLOSED, tmp_path / "journal"], check=False)
    assert (done.returncode, (tmp_path / "journal").read_text()) == (0, "True ''")


CONFIGURED = """
import logging
from mledger.metastore.runtime.logs.loggers import logs_are_configured
said = [logs_are_configured()]
package, root = logging.getLogger("mledger"), logging.getLogger()
root.addHandler(logging.StreamHandler())
said.append(logs_are_configured())
package.propagate = False
said.append(logs_are_configured())
package.addHandler(logging.StreamHandler())
said.append(logs_are_configured())
package.removeHandler(package.handlers[-1])
logging.disable()
said.append(logs_are_configured())
print(*said)
"""


def test_logs_are_configured_once_a_handler_takes_events_or_none_shall():
    done = subprocess.run([sys.executable, "-c", CONFIGURED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False", "True", "True"]
