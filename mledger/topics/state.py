"""The result of opening a topic, and the states of an open topic."""

import enum

from msgspec import Struct

from mledger.admin.policies.trim_policy import TrimPolicy
from mledger.bookie.client.ledgers.writer import LedgerWriter
from mledger.config import ManagedLedgerConfig
from mledger.errors import TopicTerminated
from mledger.events import EventSink
from mledger.ledgers.ledger_factory import LedgerFactory
from mledger.ledgers.ledger_list import LedgerList
from mledger.ledgers.ownership import Ownership
from mledger.ledgers.retention import TopicPolicies
from mledger.ledgers.topic_record import TopicRecord
from mledger.topics.services.topic_services import Services


class TopicState(enum.Enum):
    """The state of an open topic."""

    OPEN = "open"
    TERMINATED = "terminated"
    FENCED = "fenced"
    CLOSED = "closed"


def topic_terminated(name: str) -> TopicTerminated:
    """The error of an append to a terminated topic, and of a producer at its broker (M8)."""
    return TopicTerminated(f"{name} is terminated: it accepts no more entries")


class OpenedTopic(Struct, frozen=True):
    """An opened topic's parts; `writer` is None if it is terminated, `dropped` are ledgers to delete.

    `config` is `base_config` with what `policies` set; they are None if they could not be read.
    """

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
    base_config: ManagedLedgerConfig
    policies: TopicPolicies | None
