"""The Java originals as a peer: their bookies in one process, and each of their clients in its own."""

import shutil
import tempfile
from pathlib import Path
from types import TracebackType

from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from tests.support.java.driver import Original


class OriginalCluster:
    """A context: ZooKeeper and `count` original bookies, synced, in a temporary directory."""

    def __init__(self, class_path: str, count: int = 3) -> None:
        self._class_path = class_path
        self._count = count

    def __enter__(self) -> "OriginalCluster":
        self._directory = Path(tempfile.mkdtemp(prefix="bench-"))
        self._zookeeper: ZooKeeperServer | None = None
        self._bookies: Original | None = None
        try:
            self._zookeeper = ZooKeeperServer.start(self._directory / "zookeeper", tick_ms=2000)
            self._bookies = Original(self._class_path, self._directory / "bookies.log", heap_mb=1024, fast=True)
            self._bookies.call("bookies.init", zookeeper=self._zookeeper.connect_string)
            for number in range(self._count):
                directory = str(self._directory / f"bookie-{number}")
                self._bookies.call("bookies.start", zookeeper=self._zookeeper.connect_string, dir=directory)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bookies is not None:
            self._bookies.kill()
        if self._zookeeper is not None:
            self._zookeeper.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def zookeeper(self) -> str:
        """Its metadata, for the originals."""
        assert self._zookeeper is not None
        return self._zookeeper.connect_string

    def client(self) -> Original:
        """A new process with Pulsar's managed-ledger factory, connected."""
        assert self._zookeeper is not None
        client = Original(self._class_path, self._directory / "client.log", heap_mb=1024, fast=True)
        client.call("topic.connect", zookeeper=self._zookeeper.connect_string)
        return client
