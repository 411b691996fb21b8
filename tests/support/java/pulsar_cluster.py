"""A Pulsar cluster for tests: ZooKeeper, our bookies or Java's, a real broker, the official client."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulsar

from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from tests.support.aio import HANG_S
from tests.support.bookies.processes import BookieProcesses
from tests.support.java.pulsar_broker import CLUSTER, PulsarBroker, set_up_cluster
from tests.support.zookeeper.server import SETTINGS

QUIET = logging.getLogger("pulsar of tests")
QUIET.setLevel(logging.ERROR)


@dataclass
class PulsarCluster:
    """A running cluster. No test may kill what the tests of a session share."""

    zookeeper: ZooKeeperServer
    broker: PulsarBroker
    bookies: BookieProcesses | None

    @property
    def url(self) -> str:
        """The metadata URL, for `mledger`."""
        return self.zookeeper.url

    @contextlib.contextmanager
    def client(self, **options: Any) -> Iterator[pulsar.Client]:
        """An official client. It closes with the context."""
        client = pulsar.Client(self.broker.service_url, logger=QUIET, **options)
        try:
            yield client
        finally:
            client.close()

    def namespace(self, name: str, **policies: Any) -> str:
        """Create `public/<name>` with policies as Pulsar's admin REST API takes them, and return its name."""
        self.broker.ask("PUT", f"v2/namespaces/public/{name}", {"replication_clusters": [CLUSTER], **policies})
        return f"public/{name}"

    def internal_stats(self, topic: str) -> dict[str, Any]:
        """What the broker reports of a topic's ledgers and cursors; `topic` is `tenant/namespace/name`."""
        stats: dict[str, Any] = self.broker.get(f"v2/persistent/{topic}/internalStats")
        return stats

    def settle(self, topic: str) -> None:
        """Return when no cursor is between two ledgers. A broker that closes there forgets the cursor's last moves."""
        eventually(
            lambda: all(each["state"] != "SwitchingLedger" for each in self.internal_stats(topic)["cursors"].values()),
            lambda: f"the cursors of {topic} are settled",
        )

    def unload(self, topic: str) -> None:
        """Make the broker close a topic; the next client makes it load the topic again."""
        self.broker.ask("PUT", f"v2/persistent/{topic}/unload")

    def kill_broker(self) -> None:
        """Kill the broker with -9, and return when its session has ended.

        One that starts before may end itself: its worker for functions is sent to bundles of the dead one.
        """
        self.broker.kill()
        node = f"/loadbalance/brokers/127.0.0.1:{self.broker.web_port}"
        eventually(lambda: node not in self.zookeeper.command("dump"), lambda: f"{node} is gone")

    def zookeeper_writes(self) -> int:
        """The number of transactions so far: each write, and each start or end of a session, counts one."""
        line = next(line for line in self.zookeeper.command("srvr").splitlines() if line.startswith("Zxid:"))
        return int(line.split()[1], 16) & 0xFFFFFFFF


@contextlib.contextmanager
def pulsar_cluster(
    class_path: str,
    directory: Path,
    start_bookies: Callable[[ZooKeeperServer], BookieProcesses | None],
    settings: Mapping[str, object] | None = None,
    *arguments: str,
) -> Iterator[PulsarCluster]:
    """A cluster on the bookies that `start_bookies` starts; `settings` and `arguments` are those of `PulsarBroker`."""
    with ZooKeeperServer.start(directory / "zookeeper", sync=False, settings=SETTINGS) as zookeeper:
        broker = PulsarBroker(class_path, directory / "broker", zookeeper.connect_string, settings or {}, arguments)
        set_up_cluster(class_path, directory / "setup", zookeeper.connect_string, broker)
        bookies = start_bookies(zookeeper)
        try:
            broker.start()
            yield PulsarCluster(zookeeper, broker, bookies)
        finally:
            broker.kill()
            if bookies is not None:
                bookies.close()


def eventually(condition: Callable[[], bool], what: Callable[[], str], limit_s: float = HANG_S) -> None:
    """Return once `condition` holds. Raises an error that names `what` if it does not hold within `limit_s`."""
    until = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until, f"never came true: {what()}"
        time.sleep(0.1)
