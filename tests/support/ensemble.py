"""Three ZooKeeper servers that elect a leader, for tests that stop, kill or freeze one of them."""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from metastore.launcher import ZooKeeperServer, free_port
from tests.support.zookeeper import SETTINGS

SERVERS = 3


class Ensemble:
    """Running servers, numbered from 0."""

    def __init__(self, servers: list[ZooKeeperServer]) -> None:
        self.servers = servers

    @classmethod
    def start(cls, directory: Path) -> "Ensemble":
        """Start all and wait until they serve."""
        ports = [(free_port(), free_port()) for _ in range(SERVERS)]
        settings = {"initLimit": "40", "syncLimit": "10", **SETTINGS}
        settings |= {f"server.{n}": f"127.0.0.1:{peers}:{votes}" for n, (peers, votes) in enumerate(ports, 1)}

        def start(number: int) -> ZooKeeperServer:
            place = directory / f"zookeeper-{number}"
            (place / "data").mkdir(parents=True)
            (place / "data" / "myid").write_text(f"{number}\n")
            return ZooKeeperServer.start(place, port=free_port(), sync=False, heap_mb=128, settings=settings)

        with ThreadPoolExecutor(SERVERS) as threads:
            return cls(list(threads.map(start, range(1, SERVERS + 1))))

    @property
    def url(self) -> str:
        """The metadata URL of all."""
        return "zk://" + ",".join(server.connect_string for server in self.servers)

    @property
    def leader(self) -> ZooKeeperServer:
        """The one that leads now; StopIteration while none does."""
        return next(server for server in self.servers if server.running and "Mode: leader" in self._state(server))

    def close(self) -> None:
        """End all."""
        for server in self.servers:
            server.kill()

    @staticmethod
    def _state(server: ZooKeeperServer) -> str:
        with contextlib.suppress(OSError):
            return server.command("srvr")
        return ""


@pytest.fixture
def zookeeper_ensemble(tmp_path):
    """Three servers of this test's own."""
    ensemble = Ensemble.start(tmp_path)
    yield ensemble
    ensemble.close()
