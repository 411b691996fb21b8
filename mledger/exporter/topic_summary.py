"""What the records of a topic and of its cursors say: enough to count the topic at any later time, without them."""

from dataclasses import dataclass, field

from msgspec import Struct

from mledger.errors import InvalidLedgerList
from mledger.exporter.topic_figures import (
    ConsumedLedger,
    RecordedCursor,
    TopicFigures,
    consumed_ledgers,
    recorded_cursor,
    recorded_ledgers,
    topic_figures,
)
from mledger.ledgers.ledger_list import LedgerList
from mledger.ledgers.orphans.references import references_in_cursor, references_in_topic
from mledger.metastore.errors import InvalidName, RecordError
from mledger.metastore.records.codec import decode_managed_cursor_info, decode_managed_ledger_info
from mledger.metastore.records.paths import MANAGED_LEDGERS, TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import ManagedLedgerInfo
from mledger.topics.backlog_quota import KEPT as OF_THE_SYSTEM


class CursorSummary(Struct, frozen=True, array_like=True):
    """A cursor: its name, the bytes of its record, and its figures."""

    name: str
    size: int
    figures: RecordedCursor


class TopicSummary(Struct, frozen=True, array_like=True):
    """A topic: the bytes of its record, its figures, the ledgers that its records name, and its cursors."""

    namespace: str
    size: int
    figures: TopicFigures
    named: tuple[int, ...]
    cursors: tuple[CursorSummary, ...] = ()
    other_sizes: tuple[int, ...] = ()
    """Bytes of the records of cursors that are not counted: the system's, and those that do not parse."""
    unreadable: int = 0
    """How many cursors' records do not parse, or may not be read."""
    consumed: tuple[ConsumedLedger, ...] = ()


@dataclass(slots=True)
class TopicRecords:
    """A topic while its records are read; `marks` are its cursors' mark-deletes, None once one of them is unknown."""

    path: str
    size: int
    num_children: int
    name: TopicName
    info: ManagedLedgerInfo
    ledgers: LedgerList
    named: list[int]
    marks: dict[str, Position] | None = field(default_factory=dict)
    cursors: list[CursorSummary] = field(default_factory=list)
    other_sizes: list[int] = field(default_factory=list)
    unreadable: int = 0
    closed: bool = False
    """Whether access control closes a record of a cursor, or their list."""

    def add_cursor(self, node: str, name: str, data: bytes) -> None:
        """Take the record of a cursor, by its node and its name."""
        path = f"{self.path}/{node}"
        try:
            record = decode_managed_cursor_info(data, path).value
        except RecordError:
            self.unreadable += 1
            self.other_sizes.append(len(data))
            self.marks = None
            return
        self.named += (each.ledger_id for each in references_in_cursor(path, record))
        if record.mark_delete is None:
            self.marks = None
        elif self.marks is not None:
            self.marks[name] = record.mark_delete
        if name in OF_THE_SYSTEM:
            self.other_sizes.append(len(data))
        else:
            self.cursors.append(CursorSummary(name, len(data), recorded_cursor(record, self.ledgers)))

    def add_closed(self) -> None:
        """Take it that a cursor, or their list, may not be read."""
        self.closed, self.marks = True, None
        self.unreadable += 1

    def summary(self) -> TopicSummary:
        """What was read."""
        return TopicSummary(
            self.name.namespace_name,
            self.size,
            topic_figures(self.ledgers),
            tuple(self.named),
            tuple(self.cursors),
            tuple(self.other_sizes),
            self.unreadable,
            () if self.marks is None else consumed_ledgers(self.name, self.info, self.ledgers, self.marks),
        )


def records_of_topic(path: str, data: bytes, num_children: int) -> TopicRecords:
    """The topic with this record, without its cursors.

    Raises:
        RecordError: it does not parse.
        InvalidName: no topic can have its name.
        InvalidLedgerList: its list of ledgers contradicts itself.
    """
    info = decode_managed_ledger_info(data, path).value
    name = TopicName.of_managed_ledger(path[len(MANAGED_LEDGERS) + 1 :])
    named = [each.ledger_id for each in references_in_topic(path, info)]
    return TopicRecords(path, len(data), num_children, name, info, recorded_ledgers(info), named)


UNREADABLE = (RecordError, InvalidName, InvalidLedgerList)
"""What `records_of_topic` raises."""
