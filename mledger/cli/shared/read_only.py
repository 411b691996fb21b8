"""Read-only clients of a cluster: their types have no method that writes (rule M9)."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mledger.bookie.client.client import BookKeeperReader
from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.connections.bad_replicas import BadReplica
from mledger.bookie.client.connections.connection import WaitingSink
from mledger.cli.shared.messages import messages
from mledger.metastore.store import MetadataReader
from mledger.metastore.url import open_reader

PATIENCE = ClientConfig(speculative_read_s=0.5, silence_timeout_s=3.0, connect_timeout_s=3.0)
"""How long a command waits for a bookie: one that says nothing for 3 s costs that once, and is left out afterwards."""

TELL_AGAIN_S = 5.0


@dataclass(frozen=True, slots=True)
class ReadOnlyCluster:
    """The metadata store and the bookies of a cluster, for reading only."""

    metadata: MetadataReader
    bookies: BookKeeperReader


@asynccontextmanager
async def read_only_cluster(url: str) -> AsyncIterator[ReadOnlyCluster]:
    """Connect to the cluster at `url` for reading only; StoreUnavailable when no server answers in time."""
    async with await open_reader(url) as reader:
        bookies = BookKeeperReader(reader, PATIENCE)
        bookies.on_bad_replica = warn_once()
        bookies.on_waiting = tell_waiting()
        try:
            yield ReadOnlyCluster(reader, bookies)
        finally:
            await bookies.close()


def tell_waiting() -> WaitingSink:
    """Says on stderr which bookie an answer is awaited from: when that begins to take long, and each 5 s after that."""
    told: dict[str, float] = {}

    def tell(bookie_id: str, waited_s: float) -> None:
        last = told.get(bookie_id, float("inf"))
        if waited_s < last or waited_s - last >= TELL_AGAIN_S:  # less than before: it is another wait
            told[bookie_id] = waited_s
            messages.warning(f"waiting for bookie {bookie_id} ({waited_s:.0f} s)")

    return tell


def warn_once() -> Callable[[BadReplica], None]:
    """Says on stderr, once a bookie and ledger, that a replica is bad; the entry was read elsewhere."""
    warned: set[tuple[int, str]] = set()

    def warn(replica: BadReplica) -> None:
        if (replica.ledger_id, replica.bookie_id) not in warned:
            warned.add((replica.ledger_id, replica.bookie_id))
            messages.warning(_bad(replica))

    return warn


def _bad(replica: BadReplica) -> str:
    return (
        f"bookie {replica.bookie_id} has no good copy of entry {replica.entry} of ledger {replica.ledger_id} "
        f"({replica.reason}); another replica was read"
    )
