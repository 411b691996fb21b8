"""Ledger handles over bookies: ensembles, quorums, fencing, recovery."""

from mledger.bookie.client.client import BookKeeper, BookKeeperReader, no_operations
from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.connections.bad_replicas import BadReplica
from mledger.bookie.client.ledgers.peek import Peek
from mledger.bookie.client.ledgers.reader import LedgerReader
from mledger.bookie.client.ledgers.writer import LedgerWriter

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
