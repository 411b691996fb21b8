"""A standalone in a child process of a script, a notebook or a test."""

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from mledger.metastore.runtime.processes.child_processes import python_command, python_environment, start_child
from mledger.standalone.addresses import StandaloneAddresses
from mledger.standalone.backlog import WAIT_S, wait_until_drained, wait_until_durable
from mledger.standalone.ephemeral_directory import EphemeralDirectory
from mledger.standalone.errors import child_ended, data_removed

MODULE = "mledger.standalone"
LOG = "standalone.log"
STOP_TIMEOUT_S = 120.0


class StandaloneProcess:
    """A running standalone; `start_standalone_process` makes one. Its context, or `close`, ends it.

    It has one user at a time: its methods are not for several threads.
    """

    def __init__(self, data_dir: str | None, ports: tuple[int, int], arguments: Sequence[str]) -> None:
        """Use `start_standalone_process`."""
        self._temporary: EphemeralDirectory | None = None
        if data_dir is None:
            self._temporary = EphemeralDirectory()
            data_dir = self._temporary.path
        self._data_dir = os.path.abspath(data_dir)
        self._arguments = [*arguments, "--data-dir", self._data_dir, "--output", "json"]
        self._ports = ports
        self._removed = False
        self._process: subprocess.Popen[bytes]
        self._addresses: StandaloneAddresses
        try:
            self._start()
        except BaseException:
            self._remove()
            raise

    def __enter__(self) -> "StandaloneProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<standalone {self.service_url}, {'running' if self.running else 'not running'}>"

    @property
    def service_url(self) -> str:
        """The URL for Pulsar's clients; it stays the same over `restart`."""
        return self._addresses.service_url

    @property
    def admin_url(self) -> str:
        """The URL of HTTP."""
        return self._addresses.admin_url

    @property
    def metadata_url(self) -> str:
        """The metadata store, for `mledger.open_cluster` and for the `mledger` command."""
        return self._addresses.metadata_url

    @property
    def data_dir(self) -> str:
        """Where its data is."""
        return self._addresses.data_dir

    @property
    def log(self) -> Path:
        """Its log."""
        return Path(self._data_dir, LOG)

    @property
    def pid(self) -> int:
        """The process id; that of the last process if none is running."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Send SIGKILL and wait until it has ended; does nothing if it is not running."""
        if self.running:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Send SIGTERM and wait until it has ended in order; does nothing if it is not running."""
        if self.running:
            self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def restart(self) -> None:
        """Kill it if it is running, start it on its data and its ports, and wait until it serves.

        Raises:
            StandaloneError: it does not start, or `close` has removed its temporary directory.
        """
        if self._removed:
            raise data_removed(self._data_dir)
        self.kill()
        self._start()

    def wait_until_drained(self, topic: str, subscription: str, timeout_s: float = WAIT_S) -> None:
        """Wait until the subscription has acknowledged every message, so durably that a kill does not undo it.

        Raises:
            InvalidName: it is not a topic's name.
            StandaloneError: it still has a backlog after `timeout_s` seconds; its topic, or a partition, is not open;
            the broker does not answer.
        """
        wait_until_drained(self.admin_url, topic, subscription, timeout_s)

    def wait_until_durable(self, topic: str, timeout_s: float = WAIT_S) -> None:
        """Wait until no acknowledgement that the broker has received by now could be undone by a kill.

        Raises:
            InvalidName: it is not a topic's name.
            StandaloneError: one still could after `timeout_s` seconds, or the broker does not answer.
        """
        wait_until_durable(self.admin_url, topic, timeout_s)

    def close(self) -> None:
        """End it in order, and remove a temporary directory."""
        self.stop()
        self._remove()

    def _start(self) -> None:
        os.makedirs(self._data_dir, mode=0o700, exist_ok=True)
        port, http_port = self._ports
        ports = ("--port", str(port), "--http-port", str(http_port))
        with self.log.open("ab") as log:
            begins = log.tell()
            self._process = start_child(
                python_command(MODULE, *self._arguments, *ports),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=python_environment(),
                start_new_session=True,  # Ctrl-C is for the program, which then ends this process in order
            )
        try:
            served = self._served(begins)
        except BaseException:
            self.kill()
            raise
        self._addresses = StandaloneAddresses(*(str(served[name]) for name in StandaloneAddresses.__slots__))
        self._ports = _port(self.service_url), _port(self.admin_url)

    def _served(self, begins: int) -> dict[str, Any]:
        """The line that it prints when it serves. StandaloneError if it ends before."""
        assert self._process.stdout is not None
        with self._process.stdout as said:
            line = said.readline()
        if line:
            served: dict[str, Any] = json.loads(line)
            return served
        text = self.log.read_bytes()[begins:].decode(errors="replace").strip()
        raise child_ended(self._process.wait(), text.splitlines()[-1] if text else "its log is empty")

    def _remove(self) -> None:
        if self._temporary is not None:
            self._temporary.remove()
            self._removed = True


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])
