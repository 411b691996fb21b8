"""Waits for subscriptions of a standalone, by the metrics of its broker."""

import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mledger.metastore.records.paths import TopicName
from mledger.standalone.errors import acks_not_durable, not_drained

WAIT_S = 60.0
_LOOK_S = 0.01
_ANSWER_S = 30.0
_BACKLOG = "pulsar_subscription_back_log"
_UNPERSISTED = "mledger_cursor_oldest_unpersisted_seconds"
_SERIES = re.compile(rf"^({_BACKLOG}|{_UNPERSISTED})\{{(.*)\}} (\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class BacklogFigures:
    """A subscription's backlog in entries, None if its topic is not open, and the age of what a kill would undo."""

    backlog: int | None
    unpersisted_s: float


def figures_of(metrics: str, topic: TopicName, subscription: str) -> BacklogFigures:
    """The figures in the text of `/metrics`; of all partitions together if the topic has some."""
    names = re.compile(rf"{re.escape(str(topic))}(-partition-\d+)?")
    backlogs, unpersisted = [], 0.0
    for series, labels, value in _series(metrics):
        if series == _UNPERSISTED and labels["namespace"] == topic.namespace_name:
            unpersisted = float(value)
        elif series == _BACKLOG and labels["subscription"] == subscription and names.fullmatch(labels["topic"]):
            backlogs.append(int(float(value)))
    return BacklogFigures(sum(backlogs) if backlogs else None, unpersisted)


def _series(metrics: str) -> Iterator[tuple[str, dict[str, str], str]]:
    for found in _SERIES.finditer(metrics):
        yield found[1], dict(_LABEL.findall(found[2])), found[3]


def wait_until_drained(admin_url: str, topic: str, subscription: str, timeout_s: float = WAIT_S) -> None:
    """Wait until the subscription has acknowledged every message, so durably that a kill does not undo it.

    Raises:
        InvalidName: it is not a topic's name.
        StandaloneError: it still has a backlog after `timeout_s` seconds, or its topic is not open.
    """
    left = _wait(admin_url, TopicName.parse(topic), subscription, lambda found: found.backlog == 0, timeout_s)
    if left is not None:
        raise not_drained(topic, subscription, left.backlog, timeout_s)


def wait_until_durable(admin_url: str, topic: str, timeout_s: float = WAIT_S) -> None:
    """Wait until no acknowledgement that the topic's broker has received by now could be undone by a kill.

    Raises:
        InvalidName: it is not a topic's name.
        StandaloneError: one still could after `timeout_s` seconds.
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
        found = figures_of(_get(f"{admin_url}/metrics"), topic, subscription)
        if not done(found):
            done_at = None
        else:
            done_at = done_at or time.monotonic()
            if found.unpersisted_s == 0 or asked_at - found.unpersisted_s >= done_at:
                return None
        if time.monotonic() >= deadline:
            return found
        time.sleep(_LOOK_S)


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=_ANSWER_S) as answer:  # noqa: S310 - the standalone's own
        text: bytes = answer.read()
        return text.decode()
