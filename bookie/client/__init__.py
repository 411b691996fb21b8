"""Ledger handles over bookies: ensembles, quorums, fencing, recovery."""

from bookie.client.bad_replicas import BadReplica
from bookie.client.client import BookKeeper, BookKeeperReader, no_operations
from bookie.client.config import ClientConfig
from bookie.client.peek import Peek
from bookie.client.reader import LedgerReader
from bookie.client.writer import LedgerWriter

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
