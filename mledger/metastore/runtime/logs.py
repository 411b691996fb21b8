"""Logs of a process: lines for people, or one JSON object a line for programs."""

import ast
import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import TextIO

TEXT = "text"
JSON = "json"
FORMATS = (TEXT, JSON)

_TEXT = "%(asctime)s level=%(levelname)s logger=%(name)s %(message)s"
_VALUE = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\S*)"
_EVENT = re.compile(rf"(?:event=)?(?P<event>[a-z][a-z0-9_]*)(?P<fields>(?: [a-z_][a-z0-9_]*={_VALUE})*)")
_FIELD = re.compile(rf" ([a-z_][a-z0-9_]*)=({_VALUE})")
_OWN = ("time", "level", "logger", "message", "event", "exception")


def set_up_logging(log_format: str, level: str | int = logging.INFO, stream: TextIO | None = None) -> None:
    """Have this process log to `stream` (stderr) from `level` on, as `log_format` says: text or json."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == JSON else logging.Formatter(_TEXT))
    root = logging.getLogger()
    for other in root.handlers[:]:
        root.removeHandler(other)
    root.addHandler(handler)
    root.setLevel(level.upper() if isinstance(level, str) else level)


class JsonFormatter(logging.Formatter):
    """One JSON object a record: time (UTC), level, logger, message; an event's name and fields as keys of their own."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line without line ends."""
        message = record.getMessage()
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        said: dict[str, object] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
            **event_fields(message),
        }
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False, default=str)


def event_fields(message: str) -> dict[str, object]:
    """The name and fields of a message that is an event, `event=name key=value …`; nothing for any other."""
    match = _EVENT.fullmatch(message)
    if match is None or not (message.startswith("event=") or match["fields"]):
        return {}
    fields: dict[str, object] = {"event": match["event"]}
    for name, text in _FIELD.findall(match["fields"]):
        fields[f"{name}_" if name in _OWN else name] = _value(text)
    return fields


def _value(text: str) -> object:
    if text[:1] in ("'", '"') and text[:1] == text[-1:]:
        return ast.literal_eval(text)
    if re.fullmatch(r"-?(?:0|[1-9][0-9]{0,17})", text):
        return int(text)
    if re.fullmatch(r"-?[0-9]{1,17}\.[0-9]{1,17}", text):
        return float(text)
    return {"True": True, "False": False, "None": None}.get(text, text)
