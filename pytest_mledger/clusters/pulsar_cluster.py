"""What the fixture `pulsar_cluster` returns: a broker for Pulsar's clients, on bookies that a test can kill."""

from __future__ import annotations

from pytest_mledger.clusters.cluster import Bookie, RunningCluster
from pytest_mledger.clusters.cluster_broker import ClusterBroker
from pytest_mledger.clusters.pulsar import WaitingPulsar


class PulsarOnBookies(WaitingPulsar[ClusterBroker]):
    """The broker of a running cluster, and a namespace for one test."""

    def __init__(self, cluster: RunningCluster, namespace: str) -> None:
        """Have the broker run, with the settings of the test, and create the namespace."""
        broker = cluster.broker()
        broker.create_namespace(namespace)
        super().__init__(broker, namespace)
        self._cluster = cluster

    @property
    def bookies(self) -> tuple[Bookie, ...]:
        """The bookies, each of which can be killed, frozen and restarted."""
        return self._cluster.bookies
