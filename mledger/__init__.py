"""Topics as managed ledgers, subscriptions as durable cursors, on bookies and a metadata store.

    async with mledger.open_cluster("zk://127.0.0.1:2181") as cluster:
        topic = await cluster.open_topic("persistent://public/default/orders", create=True)

`docs/how-to/python.md` shows the whole of it.
"""

from metastore.errors import MledgerError
from metastore.records.paths import TopicName
from metastore.records.position import Position, PositionRange
from mledger import events
from mledger.admin.inspect import CursorInspection, Inspector, TopicInspection
from mledger.cluster import Cluster, OpenedTopics, open_cluster
from mledger.config import ManagedLedgerConfig, config_from_settings
from mledger.cursors.cursor import Cursor, CursorStatus
from mledger.cursors.entry_time import publish_time
from mledger.errors import (
    AckStateTooLarge,
    CursorExists,
    CursorNotFound,
    CursorRecoveryFailed,
    InvalidConfiguration,
    InvalidLedgerList,
    InvalidPosition,
    InvalidProperties,
    LedgerOffloaded,
    ManagedLedgerClosed,
    ManagedLedgerError,
    ManagedLedgerFenced,
    OwnedElsewhere,
    TopicExists,
    TopicNotFound,
    TopicTerminated,
)
from mledger.ledgers.entry_reader import Entry
from mledger.ledgers.open_ledger import AppendedRange
from mledger.ledgers.trim_plan import TrimPlan
from mledger.metrics_options import MetricsOptions
from mledger.settings import OwnerSettings, read_owner_settings
from mledger.topics.managed_ledger import ManagedLedger
from mledger.topics.state import TopicState

__all__ = [
    "AckStateTooLarge",
    "AppendedRange",
    "Cluster",
    "Cursor",
    "CursorExists",
    "CursorInspection",
    "CursorNotFound",
    "CursorRecoveryFailed",
    "CursorStatus",
    "Entry",
    "Inspector",
    "InvalidConfiguration",
    "InvalidLedgerList",
    "InvalidPosition",
    "InvalidProperties",
    "LedgerOffloaded",
    "ManagedLedger",
    "ManagedLedgerClosed",
    "ManagedLedgerConfig",
    "ManagedLedgerError",
    "ManagedLedgerFenced",
    "MetricsOptions",
    "MledgerError",
    "OpenedTopics",
    "OwnedElsewhere",
    "OwnerSettings",
    "Position",
    "PositionRange",
    "TopicExists",
    "TopicInspection",
    "TopicName",
    "TopicNotFound",
    "TopicState",
    "TopicTerminated",
    "TrimPlan",
    "config_from_settings",
    "events",
    "open_cluster",
    "publish_time",
    "read_owner_settings",
]
