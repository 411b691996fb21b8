"""The undo file of a command that changed records: what each held before and after, as values and as JSON.

Format 1 is an object with exactly these fields: `format`, `command`, `subject`, `made_at` (UTC), `cluster` (its URL
without secrets), `outcome`, `managed_ledgers` (whose owners matter), `topics` (path of the record, `created_ms` since
1970 by the metadata store's clock, `ledgers`: what tells a topic from a later one of its name), `records` (path, before
and after: null for no node, else `data` as base64 and `version`), `cursors` (path and `state`: the PositionInfo, as
base64, from a cursor ledger that the command may delete), `lost` (what cannot be restored). The command writes it
before it changes anything, with the outcome `begun` and every `after` null, and completes it when it ends.
"""

import base64
import enum
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from mledger.errors import UndoFileError
from mledger.ledgers.orphans.pending_records import ONE_WRITE_BYTES
from mledger.metastore.batched_store import MOST_OPERATIONS, NODE_BYTES
from mledger.metastore.runtime.times import utc_text
from mledger.metastore.store import Node

FORMAT = 1


class Outcome(enum.Enum):
    """How far the command got."""

    BEGUN = "begun"  # what it left behind is unknown
    DONE = "done"
    FAILED = "failed"  # it ended with an error; the file says what it left behind


class NodeState(Struct, frozen=True):
    """A node's data and version."""

    data: bytes
    version: int

    @classmethod
    def of(cls, node: Node | None) -> "NodeState | None":
        """The state of a node just read, None if there is no node."""
        return None if node is None else cls(node.data, node.version)


class ChangedRecord(Struct, frozen=True):
    """A node that the command may change; a state is None if there was no node, and `after` is unset while BEGUN."""

    path: str
    before: NodeState | None
    after: NodeState | None = None


class SavedCursor(Struct, frozen=True):
    """The state, an encoded PositionInfo, of the cursor whose record is at `path`, read from its cursor ledger."""

    path: str
    state: bytes


class TopicIdentity(Struct, frozen=True):
    """The topic whose record is at `path`: when that was created, by the store's clock, and the topic's last ledgers.

    A restore of the metadata creates the record again and keeps the ledgers. No two topics of a cluster have the same.
    """

    path: str
    created_ms: int
    ledgers: tuple[int, ...] = ()

    def is_same(self, other: "TopicIdentity") -> bool:
        """Whether it is the same topic, and not another one of its name."""
        return self.created_ms == other.created_ms or not set(self.ledgers).isdisjoint(other.ledgers)


class UndoFile(Struct, frozen=True):
    """Everything needed to restore the records; `made_at_ms` since 1970, `lost` one line for each loss."""

    command: str
    subject: str
    made_at_ms: int
    cluster: str
    records: tuple[ChangedRecord, ...]
    managed_ledgers: tuple[str, ...] = ()
    cursors: tuple[SavedCursor, ...] = ()
    lost: tuple[str, ...] = ()
    outcome: Outcome = Outcome.BEGUN
    topics: tuple[TopicIdentity, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The nodes that the command may have changed."""
        return tuple(record.path for record in self.records)

    @property
    def in_pieces(self) -> bool:
        """Whether what undoing writes may not fit one request (M11)."""
        size = sum(NODE_BYTES + len(each.path) + len(each.before.data) for each in self.records if each.before)
        size += sum(len(each.state) for each in self.cursors)
        return max(len(self.records), len(self.managed_ledgers)) > MOST_OPERATIONS or size > ONE_WRITE_BYTES


def encode_undo_file(file: UndoFile) -> bytes:
    """The file as it is stored."""
    value = {
        "format": FORMAT,
        "command": file.command,
        "subject": file.subject,
        "made_at": utc_text(file.made_at_ms),
        "cluster": file.cluster,
        "outcome": file.outcome.value,
        "managed_ledgers": list(file.managed_ledgers),
        "topics": [
            {"path": topic.path, "created_ms": topic.created_ms, "ledgers": list(topic.ledgers)}
            for topic in file.topics
        ],
        "records": [
            {"path": record.path, "before": _state(record.before), "after": _state(record.after)}
            for record in file.records
        ],
        "cursors": [{"path": cursor.path, "state": _base64(cursor.state)} for cursor in file.cursors],
        "lost": list(file.lost),
    }
    return json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n"


def decode_undo_file(data: bytes) -> UndoFile:
    """The file that `encode_undo_file` wrote; UndoFileError if it is not valid."""
    try:
        value = json.loads(data, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise UndoFileError(
            f"not an undo file, as it is not JSON: {error}; name the file that a command printed as its undo file"
        ) from None
    if not isinstance(value, dict) or "format" not in value:
        raise UndoFileError("not an undo file: an undo file is a JSON object with the field `format`")
    if type(value["format"]) is not int or value["format"] != FORMAT:
        raise UndoFileError(
            f"an undo file of format {value['format']!r}: this version reads only format {FORMAT}; use a newer version"
        )
    known = _Fields(value, "the file", FIELDS)
    file = UndoFile(
        command=known.text("command"),
        subject=known.text("subject"),
        made_at_ms=_time_ms(known.text("made_at")),
        cluster=known.text("cluster"),
        outcome=_outcome(known.text("outcome")),
        managed_ledgers=tuple(known.texts("managed_ledgers")),
        topics=tuple(_topics(known)),
        records=tuple(_records(known)),
        cursors=tuple(_cursors(known)),
        lost=tuple(known.texts("lost")),
    )
    _check(file)
    return file


FIELDS = frozenset(
    {
        "format",
        "command",
        "subject",
        "made_at",
        "cluster",
        "outcome",
        "managed_ledgers",
        "topics",
        "records",
        "cursors",
        "lost",
    }
)


class _Fields:
    """A JSON object that must have exactly the given fields, each of its type."""

    def __init__(self, value: Any, where: str, fields: frozenset[str]) -> None:
        if not isinstance(value, dict):
            raise UndoFileError(f"{where} is not an object")
        if value.keys() != fields:
            raise UndoFileError(f"{where} has the fields {sorted(value)}, it must have {sorted(fields)}")
        self._value: Mapping[str, Any] = value
        self.where = where

    def __getitem__(self, name: str) -> Any:
        return self._value[name]

    def text(self, name: str) -> str:
        value = self._value[name]
        if not isinstance(value, str):
            raise UndoFileError(f"{name} of {self.where} is not text")
        return value

    def number(self, name: str) -> int:
        value = self._value[name]
        if type(value) is not int or value < 0:
            raise UndoFileError(f"{name} of {self.where} is not a number of at least 0")
        return value

    def items(self, name: str) -> list[Any]:
        value = self._value[name]
        if not isinstance(value, list):
            raise UndoFileError(f"{name} of {self.where} is not a list")
        return value

    def texts(self, name: str) -> list[str]:
        items = self.items(name)
        if not all(isinstance(item, str) for item in items):
            raise UndoFileError(f"{name} of {self.where} is not a list of strings")
        return items

    def numbers(self, name: str) -> list[int]:
        items = self.items(name)
        if not all(type(item) is int and item >= 0 for item in items):
            raise UndoFileError(f"{name} of {self.where} is not a list of numbers of at least 0")
        return items

    def path(self, name: str) -> str:
        value = self.text(name)
        if not value.startswith("/") or value.endswith("/") or "//" in value:
            raise UndoFileError(f"{name} of {self.where} is not the path of a node: {value!r}")
        return value

    def bytes(self, name: str) -> bytes:
        try:
            return base64.b64decode(self.text(name), validate=True)
        except ValueError as error:  # includes binascii.Error, and text that is not ASCII
            raise UndoFileError(f"{name} of {self.where} is not base64: {error}") from None


def _records(known: _Fields) -> Iterator[ChangedRecord]:
    for number, item in enumerate(known.items("records")):
        record = _Fields(item, f"record {number}", frozenset({"path", "before", "after"}))
        where = f"record {number}"
        yield ChangedRecord(
            record.path("path"),
            _node_state(record["before"], f"before of {where}"),
            _node_state(record["after"], f"after of {where}"),
        )


def _node_state(value: Any, where: str) -> NodeState | None:
    if value is None:
        return None
    state = _Fields(value, where, frozenset({"data", "version"}))
    return NodeState(state.bytes("data"), state.number("version"))


def _topics(known: _Fields) -> Iterator[TopicIdentity]:
    for number, item in enumerate(known.items("topics")):
        topic = _Fields(item, f"topic {number}", frozenset({"path", "created_ms", "ledgers"}))
        yield TopicIdentity(topic.path("path"), topic.number("created_ms"), tuple(topic.numbers("ledgers")))


def _cursors(known: _Fields) -> Iterator[SavedCursor]:
    for number, item in enumerate(known.items("cursors")):
        cursor = _Fields(item, f"cursor {number}", frozenset({"path", "state"}))
        yield SavedCursor(cursor.path("path"), cursor.bytes("state"))


def _check(file: UndoFile) -> None:
    if len(set(file.paths)) != len(file.paths):
        raise UndoFileError("two records have the same path")
    if not {cursor.path for cursor in file.cursors} <= set(file.paths):
        raise UndoFileError("the file has a cursor's state but not the cursor's record")
    if file.outcome is Outcome.BEGUN and any(record.after is not None for record in file.records):
        raise UndoFileError("the file is not completed, yet it says what a record held afterwards")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has the same field twice")
    return found


def _outcome(text: str) -> Outcome:
    try:
        return Outcome(text)
    except ValueError:
        raise UndoFileError(f"{text!r} is not an outcome: it must be begun, done or failed") from None


def _time_ms(text: str) -> int:
    try:
        at = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    except ValueError:
        raise UndoFileError(f"{text!r} is not a time in the form 2026-01-31T12:00:00.000Z") from None
    return int(at.timestamp()) * 1000 + at.microsecond // 1000


def _state(state: NodeState | None) -> dict[str, object] | None:
    return None if state is None else {"data": _base64(state.data), "version": state.version}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
