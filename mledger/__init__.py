"""Topics as managed ledgers, subscriptions as durable cursors, on bookies and a metadata store.

    async with mledger.open_cluster("zk://127.0.0.1:2181") as cluster:
        topic = await cluster.open_topic("persistent://public/default/orders", create=True)

`docs/how-to/python.md` shows the whole API.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mledger import events
    from mledger.admin.blocking_inspector import BlockingInspector, open_inspector
    from mledger.admin.cursor_inspection import CursorInspection
    from mledger.admin.inspect import Inspector, TopicInspection
    from mledger.bookie.errors import BookieError, EntryTooLarge, NoSuchEntry, NoSuchLedger, RecoveryUndecided
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
        PoliciesUnavailable,
        RetentionUnknown,
        TopicExists,
        TopicNotFound,
        TopicTerminated,
    )
    from mledger.ledgers.entries.entry import Entry
    from mledger.ledgers.entries.open_ledger import AppendedRange
    from mledger.ledgers.trim_plan import TrimPlan
    from mledger.metastore.errors import (
        InvalidMetadataUrl,
        InvalidName,
        InvalidSetting,
        MetadataError,
        MledgerError,
        NodeNotFound,
        PackageNotInstalled,
        RecordError,
        StoreUnavailable,
    )
    from mledger.metastore.records.paths import TopicName
    from mledger.metastore.records.position import Position, PositionRange
    from mledger.metrics_options import MetricsOptions
    from mledger.settings import OwnerSettings, read_owner_settings
    from mledger.standalone.addresses import StandaloneAddresses
    from mledger.standalone.api import start_standalone, start_standalone_process
    from mledger.standalone.child import StandaloneProcess
    from mledger.standalone.errors import StandaloneError
    from mledger.topics.managed_ledger import ManagedLedger
    from mledger.topics.state import TopicState

__all__ = [
    "AckStateTooLarge",
    "AppendedRange",
    "BlockingInspector",
    "BookieError",
    "Cluster",
    "Cursor",
    "CursorExists",
    "CursorInspection",
    "CursorNotFound",
    "CursorRecoveryFailed",
    "CursorStatus",
    "Entry",
    "EntryTooLarge",
    "Inspector",
    "InvalidConfiguration",
    "InvalidLedgerList",
    "InvalidMetadataUrl",
    "InvalidName",
    "InvalidPosition",
    "InvalidProperties",
    "InvalidSetting",
    "LedgerOffloaded",
    "ManagedLedger",
    "ManagedLedgerClosed",
    "ManagedLedgerConfig",
    "ManagedLedgerError",
    "ManagedLedgerFenced",
    "MetadataError",
    "MetricsOptions",
    "MledgerError",
    "NoSuchEntry",
    "NoSuchLedger",
    "NodeNotFound",
    "OpenedTopics",
    "OwnedElsewhere",
    "OwnerSettings",
    "PackageNotInstalled",
    "PoliciesUnavailable",
    "Position",
    "PositionRange",
    "RecordError",
    "RecoveryUndecided",
    "RetentionUnknown",
    "StandaloneAddresses",
    "StandaloneError",
    "StandaloneProcess",
    "StoreUnavailable",
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
    "open_inspector",
    "publish_time",
    "read_owner_settings",
    "start_standalone",
    "start_standalone_process",
]

# The module of each name, imported on first use: bookies and read-only commands need few of them.
_HOMES = {
    "AckStateTooLarge": "mledger.errors",
    "AppendedRange": "mledger.ledgers.entries.open_ledger",
    "BlockingInspector": "mledger.admin.blocking_inspector",
    "BookieError": "mledger.bookie.errors",
    "Cluster": "mledger.cluster",
    "Cursor": "mledger.cursors.cursor",
    "CursorExists": "mledger.errors",
    "CursorInspection": "mledger.admin.cursor_inspection",
    "CursorNotFound": "mledger.errors",
    "CursorRecoveryFailed": "mledger.errors",
    "CursorStatus": "mledger.cursors.cursor",
    "Entry": "mledger.ledgers.entries.entry",
    "EntryTooLarge": "mledger.bookie.errors",
    "Inspector": "mledger.admin.inspect",
    "InvalidConfiguration": "mledger.errors",
    "InvalidLedgerList": "mledger.errors",
    "InvalidMetadataUrl": "mledger.metastore.errors",
    "InvalidName": "mledger.metastore.errors",
    "InvalidPosition": "mledger.errors",
    "InvalidProperties": "mledger.errors",
    "InvalidSetting": "mledger.metastore.errors",
    "LedgerOffloaded": "mledger.errors",
    "ManagedLedger": "mledger.topics.managed_ledger",
    "ManagedLedgerClosed": "mledger.errors",
    "ManagedLedgerConfig": "mledger.config",
    "ManagedLedgerError": "mledger.errors",
    "ManagedLedgerFenced": "mledger.errors",
    "MetadataError": "mledger.metastore.errors",
    "MetricsOptions": "mledger.metrics_options",
    "MledgerError": "mledger.metastore.errors",
    "NoSuchEntry": "mledger.bookie.errors",
    "NoSuchLedger": "mledger.bookie.errors",
    "NodeNotFound": "mledger.metastore.errors",
    "OpenedTopics": "mledger.cluster",
    "OwnedElsewhere": "mledger.errors",
    "OwnerSettings": "mledger.settings",
    "PackageNotInstalled": "mledger.metastore.errors",
    "PoliciesUnavailable": "mledger.errors",
    "Position": "mledger.metastore.records.position",
    "PositionRange": "mledger.metastore.records.position",
    "RecordError": "mledger.metastore.errors",
    "RecoveryUndecided": "mledger.bookie.errors",
    "RetentionUnknown": "mledger.errors",
    "StandaloneAddresses": "mledger.standalone.addresses",
    "StandaloneError": "mledger.standalone.errors",
    "StandaloneProcess": "mledger.standalone.child",
    "StoreUnavailable": "mledger.metastore.errors",
    "TopicExists": "mledger.errors",
    "TopicInspection": "mledger.admin.inspect",
    "TopicName": "mledger.metastore.records.paths",
    "TopicNotFound": "mledger.errors",
    "TopicState": "mledger.topics.state",
    "TopicTerminated": "mledger.errors",
    "TrimPlan": "mledger.ledgers.trim_plan",
    "config_from_settings": "mledger.config",
    "open_cluster": "mledger.cluster",
    "open_inspector": "mledger.admin.blocking_inspector",
    "publish_time": "mledger.cursors.entry_time",
    "read_owner_settings": "mledger.settings",
    "start_standalone": "mledger.standalone.api",
    "start_standalone_process": "mledger.standalone.api",
}


def __getattr__(name: str) -> Any:
    """A public name, imported from its module. Raises AttributeError for other names."""
    if name == "events":
        return importlib.import_module("mledger.events")
    if name not in _HOMES:
        raise AttributeError(f"module 'mledger' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__})
