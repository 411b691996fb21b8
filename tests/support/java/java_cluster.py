"""A cluster that Java initialised, serves and writes, and what tests of commands do with it."""

import itertools
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tests.interop.topics import MAX_ENTRIES, full_name, managed_ledger_name, write_java
from tests.support.cli import answer, ok
from tests.support.java.driver import Original, OriginalError

NUMBERS = itertools.count(1)
"""One for each topic that a test makes."""


@dataclass(frozen=True)
class Originals:
    """A cluster of Java's BookKeeper and Pulsar: they initialised it, serve it and write to it."""

    url: str
    zookeeper: str
    java: Original
    ids: list[str]
    directories: Path

    def shell(self, *arguments: object) -> str:
        """The output of `bookkeeper shell`, which must succeed."""
        words = [str(argument) for argument in arguments]
        done = self.java.call("bookies.shell", zookeeper=self.zookeeper, arguments=words)
        assert done["code"] == 0, done["printed"]
        return done["printed"]

    def refuses(self, *arguments: object) -> bool:
        """Whether `bookkeeper shell` fails with these arguments."""
        try:
            self.shell(*arguments)
        except (OriginalError, AssertionError):
            return True
        return False

    def topic(self, *, closed: bool = True) -> str:
        """A topic with entries and cursors. Its owner is alive unless the topic was closed."""
        topic = f"topic-{next(NUMBERS)}"
        write_java(self.java, topic)
        if closed:
            self.java.call("topic.close", topic=managed_ledger_name(topic))
        return topic

    def opened(self, topic: str) -> dict:
        """What Java finds when it opens the topic, which is closed again."""
        name = managed_ledger_name(topic)
        self.java.call("topic.open", topic=name, max_entries=MAX_ENTRIES)
        self.java.call("topic.settle", topic=name)
        state = self.java.call("topic.state", topic=name)
        self.java.call("topic.close", topic=name)
        return state

    def mark_delete(self, topic: str, cursor: str) -> list[int]:
        """Where Java finds a cursor."""
        return self.cursor(topic, cursor)["mark_delete"]

    def cursor(self, topic: str, cursor: str) -> dict:
        """A cursor as Java finds it."""
        return next(each for each in self.opened(topic)["cursors"] if each["name"] == cursor)

    def ledger(self, *, closed: bool = True, entries: int = 5) -> int:
        """A ledger that belongs to no topic."""
        made = self.java.call(
            "ledger.create", handle="w", ensemble=3, write_quorum=3, ack_quorum=2, digest="CRC32C", password=""
        )
        self.java.call("ledger.append", handle="w", entries=[b"entry".hex()] * entries)
        if closed:
            self.java.call("ledger.close", handle="w")
        return made["ledger"]


def change(originals, undo_file, *arguments):
    """Run a changing command, after a dry run that must leave nothing behind."""
    answer(*arguments, "--dry-run", url=originals.url)
    assert not undo_file.exists()
    return answer(*arguments, "--yes", "--undo-file", undo_file, url=originals.url)


def undo(originals, undo_file):
    """Undo what `change` did."""
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_suffix(".redo"), url=originals.url)


def without_times(value):
    """The same with each ISO time as a moment, because Java writes times in its own time zone."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key != "ms"}
    if isinstance(value, list):
        return [without_times(item) for item in value]
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value):
        return datetime.fromisoformat(value)
    return value


def known(theirs, ours):
    """Those fields of Java's that are not null in ours."""
    if isinstance(ours, dict):
        return {key: known(theirs[key], item) for key, item in ours.items() if item is not None and key in theirs}
    if isinstance(ours, list):
        return [known(one, other) for one, other in zip(theirs, ours, strict=True)]
    return theirs


def ledgers_of(topic, originals) -> list[int]:
    """The topic's ledgers, as we describe them."""
    return [each["ledger_id"] for each in answer("topics", "describe", full_name(topic), url=originals.url)["ledgers"]]
