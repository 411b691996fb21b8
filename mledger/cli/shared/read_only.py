"""Read-only clients of a cluster: their types have no method that writes (rule M9)."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from msgspec.structs import replace

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.connections.bad_replicas import BadReplica
from mledger.bookie.client.connections.connection import WaitingSink
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.bookie.client.tls_settings import BookieTls
from mledger.cli.shared.messages import messages
from mledger.metastore.store import MetadataReader
from mledger.metastore.url import open_renewed_reader

PATIENCE = ClientConfig(speculative_read_s=0.5, silence_timeout_s=3.0, connect_timeout_s=3.0)
"""The time-outs for a bookie: after 3 s of silence a command skips it from then on."""

REPORT_INTERVAL_S = 5.0


@dataclass(frozen=True, slots=True)
class ReadOnlyCluster:
    """The metadata store and the bookies of a cluster, for reading only."""

    metadata: MetadataReader
    bookies: BookKeeperReader


@asynccontextmanager
async def read_only_cluster(url: str, tls: BookieTls | None = None) -> AsyncIterator[ReadOnlyCluster]:
    """Connect to the cluster at `url` for reading only; StoreUnavailable when no server answers in time.

    `tls` encrypts connections to bookies; None: as the environment says.
    """
    async with await open_renewed_reader(url) as reader:
        bookies = BookKeeperReader(reader, replace(PATIENCE, tls=tls))
        bookies.on_bad_replica = warn_once()
        bookies.on_waiting = report_waiting()
        try:
            yield ReadOnlyCluster(reader, bookies)
        finally:
            await bookies.close()


def report_waiting() -> WaitingSink:
    """A sink that reports on stderr which bookie is awaited, at first and every 5 s after that."""
    reported: dict[str, float] = {}

    def report(bookie_id: str, waited_s: float) -> None:
        last = reported.get(bookie_id, float("inf"))
        if waited_s < last or waited_s - last >= REPORT_INTERVAL_S:  # a shorter wait is a new one
            reported[bookie_id] = waited_s
            messages.warning(f"waiting for bookie {bookie_id} ({waited_s:.0f} s)")

    return report


def warn_once() -> Callable[[BadReplica], None]:
    """A sink that warns on stderr about a bad replica, once per bookie and ledger."""
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
