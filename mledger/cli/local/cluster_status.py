"""What `mledger status` shows of a cluster that it did not start: read only, asked of its metadata store alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from mledger.cli.shared.context import MeantCluster
from mledger.cli.shared.output import OutputRecord, fields
from mledger.cli.shared.read_only import read_only_cluster
from mledger.ledgers.bundles import LIVE_BROKERS


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """How many bookies are registered, and the brokers that live."""

    writable: int
    read_only: int
    brokers: Sequence[str]

    @property
    def serves(self) -> bool:
        """Whether entries can be written: some bookie is writable."""
        return self.writable > 0


async def read_cluster_status(url: str) -> ClusterStatus:
    """The status of the cluster at `url`.

    Raises:
        StoreUnavailable: its metadata store does not answer.
    """
    async with read_only_cluster(url) as cluster:
        bookies = await cluster.bookies.bookies()
        (brokers,) = await cluster.metadata.children_many([LIVE_BROKERS])
    writable = sum(not each.read_only for each in bookies)
    return ClusterStatus(writable, len(bookies) - writable, tuple(sorted(brokers or ())))


def described_cluster(meant: MeantCluster, found: ClusterStatus) -> OutputRecord:
    """The status as it is shown, with the option, variable or context that named the cluster."""
    return OutputRecord(
        fields(
            metadata=meant.url,
            said_by=meant.said_by,
            writable_bookies=found.writable,
            read_only_bookies=found.read_only,
            brokers=tuple(found.brokers),
        )
    )
