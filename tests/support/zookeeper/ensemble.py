"""Three ZooKeeper servers that elect a leader, for tests that stop, kill or freeze one of them."""

import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mledger.metastore.zookeeper.launcher import ZooKeeperServer, free_port
from tests.support.zookeeper.server import SETTINGS

SERVERS = 3


class Line:
    """Forwards the connections between a server and its peers at `port`, and pauses while `open` is cleared."""

    def __init__(self, port: int) -> None:
        self.open = threading.Event()
        self.open.set()
        self._peer = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    def close(self) -> None:
        """Accept no more connections; existing ones end with the servers."""
        self.open.set()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours, _ = self._listener.accept()
                try:
                    peer = socket.create_connection(("127.0.0.1", self._peer))
                except OSError:
                    ours.close()
                    continue
                self._start(self._pump, ours, peer, False)
                self._start(self._pump, peer, ours, True)

    def _pump(self, source: socket.socket, target: socket.socket, waits: bool) -> None:
        with contextlib.suppress(OSError), source, target:
            while data := source.recv(65536):
                if waits:
                    self.open.wait()
                target.sendall(data)

    @staticmethod
    def _start(work, *arguments) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()


class ZooKeeperEnsemble:
    """Running servers, numbered from 0. If there are `lines`, server 0 hears its leader through them."""

    def __init__(self, servers: list[ZooKeeperServer], lines: list[Line]) -> None:
        self.servers, self.lines = servers, lines

    @classmethod
    def start(
        cls, directory: Path, sync_limit: int = 10, *, with_lines: bool = False, local_sessions: bool = False
    ) -> "ZooKeeperEnsemble":
        """Start all and wait until they serve. A follower gives up a silent leader after `sync_limit` half seconds.

        With `local_sessions`, a server begins sessions without asking its leader.

        Server 0 has the lowest number, so it never leads before another server has failed.
        """
        ports = [(free_port(), free_port()) for _ in range(SERVERS)]
        lines = [Line(peers) for peers, _ in ports[1:]] if with_lines else []
        heard = [ports[0][0], *(line.port for line in lines)]
        settings = {"initLimit": "40", "syncLimit": str(sync_limit), **SETTINGS}
        settings |= {"localSessionsEnabled": "true"} if local_sessions else {}

        def start(number: int) -> ZooKeeperServer:
            place = directory / f"zookeeper-{number}"
            (place / "data").mkdir(parents=True)
            (place / "data" / "myid").write_text(f"{number}\n")
            peers = heard if with_lines and number == 1 else [each for each, _ in ports]
            servers = {
                f"server.{n}": f"127.0.0.1:{peer}:{votes}"
                for n, (peer, (_, votes)) in enumerate(zip(peers, ports, strict=True), 1)
            }
            return ZooKeeperServer.start(place, port=free_port(), sync=False, heap_mb=128, settings=settings | servers)

        with ThreadPoolExecutor(SERVERS) as threads:
            return cls(list(threads.map(start, range(1, SERVERS + 1))), lines)

    @contextlib.contextmanager
    def lagging(self):
        """Server 0 serves clients but hears nothing from its leader: its URL, and the URL of the others."""
        for line in self.lines:
            line.open.clear()
        try:
            yield self.servers[0].url, "zk://" + ",".join(server.connect_string for server in self.servers[1:])
        finally:
            for line in self.lines:
                line.open.set()

    @property
    def url(self) -> str:
        """The metadata URL that names all servers."""
        return "zk://" + ",".join(server.connect_string for server in self.servers)

    @property
    def leader(self) -> ZooKeeperServer:
        """The server that leads now. Raises StopIteration while none does."""
        return next(server for server in self.servers if server.running and "Mode: leader" in self._state(server))

    def close(self) -> None:
        """End all servers."""
        for server in self.servers:
            server.kill()
        for line in self.lines:
            line.close()

    @staticmethod
    def _state(server: ZooKeeperServer) -> str:
        with contextlib.suppress(OSError):
            return server.command("srvr")
        return ""


@pytest.fixture
def patient_ensemble(tmp_path):
    """Like `zookeeper_ensemble`, but a server that hears nothing from its leader keeps serving for minutes."""
    ensemble = ZooKeeperEnsemble.start(tmp_path, sync_limit=1200, with_lines=True)
    yield ensemble
    ensemble.close()


@pytest.fixture
def zookeeper_ensemble(tmp_path):
    """Three servers of this test's own."""
    ensemble = ZooKeeperEnsemble.start(tmp_path)
    yield ensemble
    ensemble.close()
