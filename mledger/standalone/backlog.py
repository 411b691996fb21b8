"""Waits for subscriptions of a standalone, by the metrics of its broker."""

import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import quote

from mledger.metastore.records.paths import TopicName
from mledger.standalone.errors import acks_not_durable, needs_credentials, no_answer, not_drained

WAIT_S = 60.0
_LOOK_S = 0.01
_ANSWER_S = 30.0
_BACKLOG = "pulsar_subscription_back_log"
_UNPERSISTED = "mledger_cursor_oldest_unpersisted_seconds"
_SERIES = re.compile(rf"^({_BACKLOG}|{_UNPERSISTED})\{{(.*)\}} (\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # it is on this machine
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)


@dataclass(frozen=True, slots=True)
class BacklogFigures:
    """A subscription's backlog in entries, None if its topic or one of the partitions is not open.

    `unpersisted_s` is the age of what a kill would undo.
    """

    backlog: int | None
    unpersisted_s: float


def figures_of(metrics: str, topic: TopicName, subscription: str, partitions: int = 0) -> BacklogFigures:
    """The figures in the text of `/metrics`; of all `partitions` together if the topic has some."""
    names = re.compile(rf"{re.escape(str(topic))}(-partition-\d+)?")
    backlogs, unpersisted = [], 0.0
    for series, labels, value in _series(metrics):
        if series == _UNPERSISTED and labels["namespace"] == topic.namespace_name:
            unpersisted = float(value)
        elif series == _BACKLOG and labels["subscription"] == subscription and names.fullmatch(labels["topic"]):
            backlogs.append(int(float(value)))
    return BacklogFigures(sum(backlogs) if len(backlogs) >= max(partitions, 1) else None, unpersisted)


def _series(metrics: str) -> Iterator[tuple[str, dict[str, str], str]]:
    for found in _SERIES.finditer(metrics):
        yield found[1], {name: _ESCAPED.sub(_unescaped, text) for name, text in _LABEL.findall(found[2])}, found[3]


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]


def wait_until_drained(admin_url: str, topic: str, subscription: str, timeout_s: float = WAIT_S) -> None:
    """Wait until the subscription has acknowledged every message, so durably that a kill does not undo it.

    Raises:
        InvalidName: it is not a topic's name.
        StandaloneError: it still has a backlog after `timeout_s` seconds, or its topic or one of the partitions is not
            open; or the broker does not answer.
    """
    left = _wait(admin_url, TopicName.parse(topic), subscription, lambda found: found.backlog == 0, timeout_s)
    if left is not None:
        raise not_drained(topic, subscription, left.backlog, timeout_s)


def wait_until_durable(admin_url: str, topic: str, timeout_s: float = WAIT_S) -> None:
    """Wait until no acknowledgement that the topic's broker has received by now could be undone by a kill.

    Raises:
        InvalidName: it is not a topic's name.
        StandaloneError: one still could after `timeout_s` seconds, or the broker does not answer.
    """
    if _wait(admin_url, TopicName.parse(topic), "", lambda _: True, timeout_s) is not None:
        raise acks_not_durable(topic, timeout_s)


def _wait(
    admin_url: str, topic: TopicName, subscription: str, done: Callable[[BacklogFigures], bool], timeout_s: float
) -> BacklogFigures | None:
    """Wait until it is done and what was done by then is durable; the last figures if that takes too long."""
    done_at: float | None = None
    deadline = time.monotonic() + timeout_s
    while True:
        asked_at = time.monotonic()
        partitions = _partitions(admin_url, topic)
        found = figures_of(_get(f"{admin_url}/metrics"), topic, subscription, partitions)
        if not done(found):
            done_at = None
        else:
            done_at = done_at or time.monotonic()
            if found.unpersisted_s == 0 or asked_at - found.unpersisted_s >= done_at:
                return None
        if time.monotonic() >= deadline:
            return found
        time.sleep(_LOOK_S)


def _partitions(admin_url: str, topic: TopicName) -> int:
    """How many partitions the topic has; 0 too if the broker tells only users that it knows."""
    name = quote(topic.local_name, safe="")
    url = f"{admin_url}/admin/v2/{topic.domain}/{quote(topic.namespace_name)}/{name}/partitions"
    try:
        return int(json.loads(_answer(url))["partitions"])
    except HTTPError as error:
        if error.code in _REFUSED:
            return 0
        raise no_answer(url, error) from error
    except (OSError, HTTPException) as error:
        raise no_answer(url, error) from error


def _get(url: str) -> str:
    try:
        return _answer(url)
    except HTTPError as error:
        raise (needs_credentials if error.code in _REFUSED else no_answer)(url, error) from error
    except (OSError, HTTPException) as error:
        raise no_answer(url, error) from error


def _answer(url: str) -> str:
    with _DIRECTLY.open(url, timeout=_ANSWER_S) as answer:
        text: bytes = answer.read()
        return text.decode()
