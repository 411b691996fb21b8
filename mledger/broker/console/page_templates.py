"""Pages from templates: everything is escaped, and what a person could not see or would misread is made visible."""

from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mledger.broker.admin_rest.requests import AdminAnswer
from mledger.broker.console.console_session import PATH
from mledger.metastore.records.paths import TopicName

HTML = "text/html; charset=utf-8"
SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STATIC_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
NO_FIGURE = "\N{EN DASH}"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_UNIT = 1024


def visible(value: Any) -> Any:
    """Text with escapes for characters that are not printable: controls, bidirectional marks, halves of pairs."""
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return "".join(each if each.isprintable() or each == "\n" else _escape(each) for each in value)


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def size_text(size: int | None) -> str:
    """Bytes for people."""
    if size is None:
        return NO_FIGURE
    amount = float(size)
    for unit in _UNITS:
        if amount < _UNIT or unit == _UNITS[-1]:
            break
        amount /= _UNIT
    return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"


def number_text(number: int | None) -> str:
    """A number for people."""
    return NO_FIGURE if number is None else f"{number:,}"


def time_text(ms: int) -> str:
    """A time, in UTC."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


def namespace_url(namespace: str, **query: Any) -> str:
    """The page of a namespace."""
    return f"{PATH}/namespaces/{quote(namespace)}{_query(query)}"


def topic_url(topic: TopicName, *rest: str, **query: Any) -> str:
    """The page of a topic, or below it."""
    elements = (topic.domain, topic.tenant, topic.namespace, topic.local_name, *rest)
    return "/".join([f"{PATH}/topics", *(quote(each, safe="") for each in elements)]) + _query(query)


def _query(query: Mapping[str, Any]) -> str:
    return f"?{urlencode(query)}" if query else ""


class PageTemplates:
    """Renders the templates of this package."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("mledger.broker.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=visible,
            auto_reload=False,
        )
        self._environment.filters |= {"size": size_text, "number": number_text, "time": time_text}
        self._environment.globals |= {"namespace_url": namespace_url, "topic_url": topic_url, "root": PATH}

    def page(self, template: str, status: HTTPStatus = HTTPStatus.OK, **values: Any) -> AdminAnswer:
        """The answer that shows a template."""
        text = self._environment.get_template(template).render(values)
        return AdminAnswer(status, text.encode(errors="replace"), HTML, SECURITY_HEADERS)


def static_file(name: str) -> AdminAnswer | None:
    """A file of the console, None if there is none."""
    kind = STATIC_TYPES.get(name.rpartition(".")[2])
    if kind is None or name not in _STATIC:
        return None
    data = files("mledger.broker.console").joinpath("static", name).read_bytes()
    return AdminAnswer(HTTPStatus.OK, data, kind, {**SECURITY_HEADERS, "Cache-Control": "max-age=300"})


_STATIC = ("console.css", "console.js", "icon.svg")


def redirect(location: str, **headers: str) -> AdminAnswer:
    """Have the browser get another page."""
    return AdminAnswer(HTTPStatus.SEE_OTHER, headers={**SECURITY_HEADERS, "Location": location, **headers})
