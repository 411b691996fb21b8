"""The status of a cluster that `mledger up` did not start; reads only its metadata store."""

from collections.abc import Sequence
from dataclasses import dataclass

from mledger.cli.shared.context import SelectedCluster
from mledger.cli.shared.output.results import OutputRecord, fields
from mledger.cli.shared.read_only import read_only_cluster
from mledger.ledgers.bundles import LIVE_BROKERS


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The numbers of registered bookies, and the live brokers."""

    writable: int
    read_only: int
    brokers: Sequence[str]

    @property
    def serves(self) -> bool:
        """Whether entries can be written: at least one bookie is writable."""
        return self.writable > 0


async def read_cluster_status(url: str) -> ClusterStatus:
    """Read the status of the cluster at `url`.

    Raises:
        StoreUnavailable: the metadata store does not answer.
    """
    async with read_only_cluster(url) as cluster:
        bookies = await cluster.bookies.bookies()
        (brokers,) = await cluster.metadata.children_many([LIVE_BROKERS])
    writable = sum(not each.read_only for each in bookies)
    return ClusterStatus(writable, len(bookies) - writable, tuple(sorted(brokers or ())))


def described_cluster(selected: SelectedCluster, found: ClusterStatus) -> OutputRecord:
    """The status as shown, with the option, variable or context that selected the cluster."""
    return OutputRecord(
        fields(
            metadata=selected.url,
            said_by=selected.said_by,
            writable_bookies=found.writable,
            read_only_bookies=found.read_only,
            brokers=tuple(found.brokers),
        )
    )
