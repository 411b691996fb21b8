"""Log events in one form in every process: a name and fields, as a line of text or as a JSON object.

A module creates its logger once, `log = get_logger(__name__)`, and names what happened: `log.warning("ledger_fenced",
ledger=5, error=error)`. Events go through Python's logging, below the logger `mledger`. A program that uses the library
configures that logger like any other; otherwise nothing is printed but why a process ends itself. Its handlers get an
event as text; a handler with structlog's ProcessorFormatter gets the fields. Processes of mledger call
`set_up_logging`.
"""

import contextlib
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, TextIO

from mledger.metastore.runtime.logs.log_line import plain, str_of, text_line

TEXT = "text"
JSON = "json"
FORMATS = (TEXT, JSON)

ROOT = "mledger"
# Keys of every line and of structlog's formatters: a field with such a name gets a "_" appended.
_RESERVED = frozenset(
    ("time", "level", "logger", "event", "exception", "exc_info", "stack_info", "_record", "_from_structlog")
)

logging.getLogger(ROOT).addHandler(logging.NullHandler())


class LoggedEvent(dict[str, Any]):
    """An event's name, under `event`, and its fields; as a string `event=name key=value …`, in one line."""

    def __init__(self, event: str, fields: Mapping[str, object]) -> None:
        """Take the fields; one whose name is taken gets a "_" behind it, an exception is its message and its type."""
        super().__init__(event=event)
        for key, value in fields.items():
            name = self._free(key)
            self[name] = str_of(value) if isinstance(value, BaseException) else value
            if isinstance(value, BaseException):
                self[self._free(f"{key}_type")] = type(value).__name__

    def _free(self, name: str) -> str:
        while name in self or name in _RESERVED:
            name += "_"
        return name

    def __str__(self) -> str:
        return text_line({key: value for key, value in self.items() if key != "exc_info"})


class EventLogger:
    """Logs events by name; an event whose level is off costs one look-up."""

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, event: str, /, **fields: object) -> None:
        """Log details for debugging the program."""
        if self._logger.isEnabledFor(logging.DEBUG):
            self._write(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        """Log what happens in normal service."""
        if self._logger.isEnabledFor(logging.INFO):
            self._write(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """Log a problem that the program handled."""
        if self._logger.isEnabledFor(logging.WARNING):
            self._write(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        """Log a problem that somebody must attend to."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._write(logging.ERROR, event, fields)

    def exception(self, event: str, /, **fields: object) -> None:
        """Log an error with the traceback of the exception that is being handled."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._write(logging.ERROR, event, fields, sys.exception())

    def critical(self, event: str, /, *, exc_info: BaseException | None = None, **fields: object) -> None:
        """Log what ends the process, with the traceback of `exc_info`."""
        if self._logger.isEnabledFor(logging.CRITICAL):
            self._write(logging.CRITICAL, event, fields, exc_info)

    def _write(
        self, level: int, event: str, fields: Mapping[str, object], exception: BaseException | None = None
    ) -> None:
        said, exc_info = LoggedEvent(event, fields), None
        if exception is not None:
            said["exc_info"] = exc_info = (type(exception), exception, exception.__traceback__)
        extra = _marks(self._logger.name, logging.getLevelName(level))
        self._logger.log(level, said, exc_info=exc_info, extra=extra, stacklevel=3)


def get_logger(name: str) -> EventLogger:
    """The logger of a module, by its name."""
    return EventLogger(logging.getLogger(name))


def library_logger(name: str) -> logging.Logger:
    """A logger for a library that wants one of Python's; its lines are no events and stand under `message`."""
    return logging.getLogger(name)


def open_standard_streams() -> None:
    """Open those of stdin, stdout and stderr that are closed, to nowhere.

    Else the next files that this process opens take their numbers, and what a library writes to stderr goes into one.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for good


def set_up_logging(log_format: str, level: str | int = logging.INFO, stream: TextIO | None = None) -> None:
    """Log to `stream` (stderr) in this process, from `level` on, as `log_format` says: text or json."""
    open_standard_streams()
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter(log_format))
    root = logging.getLogger()
    for other in root.handlers[:]:
        root.removeHandler(other)
    root.addHandler(handler)
    root.setLevel(level.upper() if isinstance(level, str) else level)
    logging.getLogger("kazoo").setLevel(logging.WARNING)


def logs_are_configured() -> bool:
    """Whether the program has said where events go; nowhere (`logging.disable`) is a place, too."""
    package, root = logging.getLogger(ROOT), logging.getLogger()
    handlers = (*package.handlers, *(root.handlers if package.propagate else ()))
    said_nowhere = root.manager.disable >= logging.CRITICAL
    return said_nowhere or any(not isinstance(handler, logging.NullHandler) for handler in handlers)


def discard_logs() -> None:
    """Print no logs, of any library, in a process that set up nothing else."""
    logging.getLogger().addHandler(logging.NullHandler())


def flush_logs() -> None:
    """Flush the log before a process ends itself at once."""
    logging.shutdown()


def format_event(log_format: str, level: str, event: str, fields: Mapping[str, object]) -> str:
    """The line of one event of the logger `mledger`, for a process that logs nothing else."""
    attributes = {"name": ROOT, "levelname": level, "msg": LoggedEvent(event, fields), **_marks(ROOT, level)}
    return formatter(log_format).format(logging.makeLogRecord(attributes))


def _marks(logger: str, level_name: str) -> dict[str, object]:
    """The attributes by which structlog's ProcessorFormatter knows a record for an event."""
    return {"_logger": logging.getLogger(logger), "_name": level_name.lower()}


@cache
def formatter(log_format: str) -> logging.Formatter:
    """What makes lines of records: `time` (UTC), `level`, `logger`, `event` and its fields; others have a `message`."""
    with _without_rich():
        from structlog.processors import ExceptionRenderer, JSONRenderer
        from structlog.stdlib import ProcessorFormatter

    def as_text(logger: object, name: str, event_dict: MutableMapping[str, Any]) -> str:
        return text_line(event_dict)

    other = ProcessorFormatter(
        foreign_pre_chain=[_as_message],
        processors=[
            _with_head,
            ProcessorFormatter.remove_processors_meta,
            ExceptionRenderer(),
            _as_plain,
            JSONRenderer() if log_format == JSON else as_text,
        ],
    )
    return _EventFormatter(log_format, other)


class _EventFormatter(logging.Formatter):
    """Makes lines of events without a traceback by itself, several times as fast; of other records `other` does."""

    def __init__(self, log_format: str, other: logging.Formatter) -> None:
        super().__init__()
        self._json = log_format == JSON
        self._other = other

    def format(self, record: logging.LogRecord) -> str:
        said = record.msg
        if not isinstance(said, LoggedEvent) or record.exc_info or record.stack_info:
            return self._other.format(record)
        fields = {**_head(record), **said}
        return json.dumps({key: plain(value) for key, value in fields.items()}) if self._json else text_line(fields)


@contextlib.contextmanager
def _without_rich() -> Iterator[None]:
    """Import structlog without rich, which it loads for a console renderer that is not used here: 110 ms and 5 MB."""
    modules: dict[str, Any] = sys.modules
    if "rich" in modules:
        yield
        return
    modules["rich"] = None  # to the import system: there is no such module
    try:
        yield
    finally:
        del modules["rich"]


def _as_message(logger: object, name: str, event_dict: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    event_dict["message"] = event_dict.pop("event")
    return event_dict


def _with_head(logger: object, name: str, event_dict: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {**_head(event_dict["_record"]), **event_dict}


def _head(record: logging.LogRecord) -> dict[str, str]:
    """What each line begins with."""
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return {"time": time.replace("+00:00", "Z"), "level": record.levelname.lower(), "logger": record.name}


def _as_plain(logger: object, name: str, event_dict: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {key: plain(value) for key, value in event_dict.items()}
