"""The broker that the fixture `pulsar_cluster` returns: a process of its own, on bookies that a test can kill."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_mledger.clusters.namespace_creation import create_namespace
from pytest_mledger.servers.processes import ServerProcess, Servers

MODULE = "mledger.broker.process.main"
NAME = "broker"
USED_LATER = ("numpy", "aiohttp.web")
"""What the process imports as it runs: imported before it is forked."""
DEFAULTS = {"managedLedgerDefaultMarkDeleteRateLimit": "10"}
"""What is acknowledged is durable after a tenth of a second."""


class ClusterBroker:
    """The one broker of a cluster; it starts when a test first asks for it."""

    def __init__(self, servers: Servers, metadata_url: str, expire: Callable[[], None]) -> None:
        """`expire` ends the sessions with the metadata store."""
        self._servers, self.metadata_url, self.expire_sessions = servers, metadata_url, expire
        self._settings: Mapping[str, str] = {}
        self._ports = "0", "0"
        self._server: ServerProcess | None = None
        self._changing = threading.RLock()  # held while the process is started or ended
        self._said: dict[str, Any] = {}

    @property
    def service_url(self) -> str:
        """The URL for Pulsar's clients; it stays the same over a restart."""
        return str(self._said["service_url"])

    @property
    def admin_url(self) -> str:
        """The URL of HTTP."""
        return f"http://127.0.0.1:{self._said['metrics_port']}"

    @property
    def pid(self) -> int:
        """The process id; that of its last process if it is not running."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        self._servers.look()
        return self._server is not None and self._server.running

    @property
    def log(self) -> Path:
        """The path of its log."""
        return self._process.log

    def create_namespace(self, name: str) -> None:
        """Create a namespace, `tenant/namespace`. MetadataError if it is there."""
        create_namespace(self.metadata_url, name)

    def kill(self) -> None:
        """Send SIGKILL and wait until it has ended; does nothing if it is not running."""
        with self._changing:
            self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Send SIGTERM and wait until it has ended in order; does nothing if it is not running."""
        with self._changing:
            self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Kill it if it is running, start it at the same ports, and wait until it serves."""
        with self._changing:
            self.kill()
            self._launch()

    def serve(self, settings: Mapping[str, str]) -> None:
        """Have it run with these settings, those of the last test or others.

        Waits for a restart that a test began in a thread and did not wait for.
        """
        with self._changing:
            if self._server is not None and self._servers.frozen(self._server):
                self.kill()
            if self.running and settings != self._settings:
                self.stop()
            self._settings = settings
            if not self.running:
                self._launch()

    @property
    def _process(self) -> ServerProcess:
        assert self._server is not None
        return self._server

    def _launch(self) -> None:
        if self._server is None:
            self._servers.prepare(*USED_LATER, MODULE)
        port, web_port = self._ports
        arguments = ["--metadata", self.metadata_url, "--port", port, "--metrics-port", web_port]
        for key, value in (DEFAULTS | dict(self._settings)).items():
            arguments += ["--set", f"{key}={value}"]
        self._server = self._servers.start(NAME, MODULE, *arguments, "--log-level", "warning")
        self._said = self._servers.wait_serving(self._server)
        self._ports = str(self._said["port"]), str(self._said["metrics_port"])

    def _end(self, number: int) -> None:
        if self._server is not None:
            self._servers.end(self._server, number)
