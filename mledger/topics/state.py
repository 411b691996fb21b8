"""What opening a topic leads to, and what an open topic can do."""

import enum
from dataclasses import dataclass

from mledger.admin.policies.trim_policy import TrimPolicy
from mledger.bookie.client.ledgers.writer import LedgerWriter
from mledger.config import ManagedLedgerConfig
from mledger.events import EventSink
from mledger.ledgers.ledger_factory import LedgerFactory
from mledger.ledgers.ledger_list import LedgerList
from mledger.ledgers.ownership import Ownership
from mledger.ledgers.topic_record import TopicRecord
from mledger.topics.services import Services


class TopicState(enum.Enum):
    """What a topic can do."""

    OPEN = "open"
    TERMINATED = "terminated"
    FENCED = "fenced"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class OpenedTopic:
    """What opening leads to; `writer` is None for a terminated topic, `dropped` are ledgers to delete."""

    services: Services
    record: TopicRecord
    factory: LedgerFactory
    ownership: Ownership
    config: ManagedLedgerConfig
    ledgers: LedgerList
    writer: LedgerWriter | None
    dropped: tuple[int, ...]
    emit: EventSink
    trim_policy: TrimPolicy
