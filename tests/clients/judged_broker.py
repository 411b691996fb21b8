"""The brokers that clients judge: ours, and Java's original for comparison, each on the same kind of cluster."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mledger.admin.partitions import read_partitioned
from mledger.broker.lookup.unload_request import request_unload
from mledger.ledgers.ownership import find_broker
from mledger.metastore.records.paths import TopicName
from mledger.metastore.url import open_store
from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from tests.clients.lookup_proxy import BrokerProxies, BrokerProxy
from tests.support.aio import HANG_S
from tests.support.bookies.processes import SMALL, BookieProcesses, initialize_cluster
from tests.support.forked_python import ForkedPython
from tests.support.java.pulsar_broker import PulsarBroker
from tests.support.java.pulsar_broker import build as build_pulsar
from tests.support.java.pulsar_cluster import PulsarCluster, pulsar_cluster
from tests.support.ports import free_late_port
from tests.support.zookeeper.server import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
BOOKIES = 4
CONFIGURATION: dict[str, object] = {
    "maxMessageSize": 131_072,  # so that chunks are small
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    "defaultRetentionTimeInMinutes": -1,  # what was acknowledged can be sought
    "defaultRetentionSizeInMB": -1,
    "managedLedgerDefaultEnsembleSize": 3,
    "managedLedgerDefaultWriteQuorum": 3,
    "managedLedgerDefaultAckQuorum": 2,
}


class JudgedBroker(Protocol):
    """A broker that can be killed and started again at the same address."""

    @property
    def service_url(self) -> str:
        """For clients."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""

    def start(self) -> None:
        """Start it and return when it serves."""

    def kill(self) -> None:
        """Send SIGKILL."""

    def move(self, topics: Sequence[str]) -> None:
        """Have it give up these topics, which the next lookup brings to an owner again."""


class BrokerEnded(Exception):
    """A broker ended instead of serving. Holds the end of its log."""


class OurBroker:
    """A process of our broker."""

    def __init__(
        self,
        metadata_url: str,
        directory: Path,
        settings: Sequence[str] = (),
        *,
        name: str = "broker",
        http: bool = False,
    ) -> None:
        """`settings` are further ones; `http`: it shows figures at `http_port`."""
        directory.mkdir(parents=True, exist_ok=True)
        self.log_path = directory / f"{name}.log"
        given = [f"{name}={value}" for name, value in CONFIGURATION.items()] + list(settings)
        self.port = free_late_port()
        self._metadata_url = metadata_url
        self._arguments = ["--metadata", metadata_url, "--port", str(self.port)]
        self._arguments += [word for setting in given for word in ("--set", setting)]
        self.http_port = free_late_port() if http else None
        if http:
            self._arguments += ["--metrics-port", str(self.http_port)]
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return "127.0.0.1", self.port

    @property
    def service_url(self) -> str:
        """For clients."""
        return f"pulsar://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it and return when it serves. Raises BrokerEnded if it ends instead."""
        with open(self.log_path, "ab") as log:
            self._process = ForkedPython(
                [sys.executable, "-m", "mledger.broker.process.main", *self._arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BrokerEnded(f"ended with {self._process.wait(HANG_S)}:\n{self.log()[-4000:]}")
        assert json.loads(line)["port"] == self.port

    def kill(self) -> None:
        """Send SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in order: it gives up its bundles, and tells clients where they go."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(HANG_S)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def move(self, topics: Sequence[str]) -> None:
        """Have the topics' bundles unloaded, each once."""

        async def unload() -> None:
            async with await open_store(self._metadata_url) as store:
                of_bundles: dict[str, TopicName] = {}
                for topic in map(TopicName.parse, topics):
                    found = await read_partitioned(store, topic)
                    for part in [topic.partition(each) for each in range(found[0].partitions)] if found else [topic]:
                        owner = await find_broker(store, part.managed_ledger_name)
                        assert owner is not None, f"nobody serves {part}"
                        of_bundles.setdefault(owner.path, part)
                for part in of_bundles.values():
                    await request_unload(store, part)

        asyncio.run(unload())

    def log(self) -> str:
        """Everything it has logged so far."""
        return self.log_path.read_text(errors="replace")


class OriginalBroker:
    """Java's broker."""

    def __init__(self, broker: PulsarBroker) -> None:
        self._broker = broker

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return "127.0.0.1", self._broker.port

    @property
    def service_url(self) -> str:
        """For clients."""
        return self._broker.service_url

    def start(self) -> None:
        """Start it and return when it serves."""
        self._broker.start()

    def kill(self) -> None:
        """Send SIGKILL."""
        self._broker.kill()

    def move(self, topics: Sequence[str]) -> None:
        """Have it unload each topic."""
        for topic in topics:
            self._broker.ask("PUT", f"v2/{topic.replace('://', '/')}/unload")


@dataclass
class JudgedCluster:
    """A cluster with four bookies and a broker; `url` is its metadata.

    Attributes:
        other: a second broker, which runs only while bundles move to it.
    """

    url: str
    broker: JudgedBroker
    bookies: BookieProcesses
    proxy: BrokerProxy
    directory: Path
    other: OurBroker | None = None


@contextlib.contextmanager
def our_cluster(directory: Path, settings: Sequence[str] = (), *, http: bool = False) -> Iterator[JudgedCluster]:
    """ZooKeeper, bookies and a broker of ours. `settings` and `http` are those of `OurBroker`."""
    with ZooKeeperServer.start(directory / "zookeeper", sync=False, settings=SETTINGS) as zookeeper:
        initialize_cluster(zookeeper.url)
        bookies = BookieProcesses(zookeeper.url, directory / "bookies")
        broker = OurBroker(zookeeper.url, directory, settings, http=http)
        other = OurBroker(zookeeper.url, directory, name="other")
        try:
            bookies.start(BOOKIES)
            broker.start()
            with _proxy(broker) as proxy:
                yield JudgedCluster(zookeeper.url, broker, bookies, proxy, directory, other)
        finally:
            broker.kill()
            other.kill()
            bookies.close()


@contextlib.contextmanager
def original_broker_cluster(directory: Path, settings: Mapping[str, Any] = CONFIGURATION) -> Iterator[PulsarCluster]:
    """ZooKeeper, bookies of ours and Java's broker with its admin REST API."""

    def start_bookies(zookeeper: ZooKeeperServer) -> BookieProcesses:
        processes = BookieProcesses(zookeeper.url, directory / "bookies", SMALL)
        processes.start(BOOKIES)
        return processes

    with pulsar_cluster(build_pulsar(), directory, start_bookies, settings) as cluster:
        yield cluster


@contextlib.contextmanager
def original_cluster(directory: Path) -> Iterator[JudgedCluster]:
    """ZooKeeper, bookies of ours and Java's broker."""
    with original_broker_cluster(directory) as cluster:
        broker = OriginalBroker(cluster.broker)
        assert cluster.bookies is not None
        with _proxy(broker) as proxy:
            yield JudgedCluster(cluster.url, broker, cluster.bookies, proxy, directory)


@contextlib.contextmanager
def _proxy(broker: JudgedBroker) -> Iterator[BrokerProxy]:
    proxies = BrokerProxies()
    try:
        yield proxies.before(broker.address)
    finally:
        proxies.close()


CLUSTERS = {"ours": our_cluster, "original": original_cluster}
