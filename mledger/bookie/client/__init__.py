"""Ledger handles over bookies: ensembles, quorums, fencing, recovery."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mledger.bookie.client.client import BookKeeper, no_operations
    from mledger.bookie.client.config import ClientConfig
    from mledger.bookie.client.connections.bad_replicas import BadReplica
    from mledger.bookie.client.ledgers.peek import Peek
    from mledger.bookie.client.ledgers.reader import LedgerReader
    from mledger.bookie.client.ledgers.writer import LedgerWriter
    from mledger.bookie.client.reading_client import BookKeeperReader

__all__ = [
    "BadReplica",
    "BookKeeper",
    "BookKeeperReader",
    "ClientConfig",
    "LedgerReader",
    "LedgerWriter",
    "Peek",
    "no_operations",
]

# The module of each name, imported on first use: who only reads needs nothing of what writes.
_HOMES = {
    "BadReplica": "mledger.bookie.client.connections.bad_replicas",
    "BookKeeper": "mledger.bookie.client.client",
    "BookKeeperReader": "mledger.bookie.client.reading_client",
    "ClientConfig": "mledger.bookie.client.config",
    "LedgerReader": "mledger.bookie.client.ledgers.reader",
    "LedgerWriter": "mledger.bookie.client.ledgers.writer",
    "Peek": "mledger.bookie.client.ledgers.peek",
    "no_operations": "mledger.bookie.client.client",
}


def __getattr__(name: str) -> Any:
    """A public name, imported from its module. Raises AttributeError for other names."""
    if name not in _HOMES:
        raise AttributeError(f"module 'mledger.bookie.client' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value
