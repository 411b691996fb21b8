"""Ledger handles over bookies: ensembles, quorums, fencing, recovery."""

from bookie.client.client import BookKeeper, BookKeeperReader, no_operations
from bookie.client.config import ClientConfig
from bookie.client.connections.bad_replicas import BadReplica
from bookie.client.ledgers.peek import Peek
from bookie.client.ledgers.reader import LedgerReader
from bookie.client.ledgers.writer import LedgerWriter

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
