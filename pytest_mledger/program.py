"""A program of the tests' own, as a process of its own: an owner, say, that is killed and started again."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from pytest_mledger.servers import ClusterFailed, ServerProcess, Servers, log_end

METADATA_VARIABLE = "MLEDGER_METADATA"
_STDOUT = 1
_LOOK_S = 0.005


class Program:
    """A command that runs where the tests do, told the cluster in MLEDGER_METADATA."""

    def __init__(self, servers: Servers, name: str, url: str, command: Sequence[str]) -> None:
        """Use `RunningCluster.program`."""
        self._servers, self._name, self._command = servers, name, tuple(command)
        self._url = url
        self._output = servers.directory / f"{name}.out"
        self._begins = 0
        self._server = self._start()

    @property
    def pid(self) -> int:
        """The process id, 0 before it is known; that of the last process when none runs."""
        self._servers.look()
        return self._server.pid

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        self._servers.look()
        return self._server.running

    @property
    def output(self) -> str:
        """What its present process has printed; what it said on stderr is in `log`."""
        with self._output.open("rb") as file:
            file.seek(self._begins)
            return file.read().decode(errors="replace")

    @property
    def log(self) -> Path:
        """What its processes said on stderr."""
        return self._server.log

    def wait_for(self, line: str, timeout_s: float = 90.0) -> None:
        """Return when its present process has printed that line; ClusterFailed when it ends or takes too long."""
        deadline = time.monotonic() + timeout_s
        while True:
            running = self.running
            if line in self.output.splitlines():
                return
            if not running or time.monotonic() > deadline:
                what = "took too long" if running else f"ended with {self._server.code}"
                raise ClusterFailed(
                    f"{self._name} {what} and did not print {line!r}. It printed: {log_end(self.output)}\n"
                    f"Its log: {log_end(self.log.read_text(errors='replace'))}"
                )
            time.sleep(_LOOK_S)

    def kill(self) -> None:
        """SIGKILL, and wait for the end; nothing where it does not run."""
        self._servers.signal(self._server, signal.SIGKILL)
        self._servers.wait_ended(self._server)

    def wait(self) -> int:
        """Wait for its end; the exit code."""
        return self._servers.wait_ended(self._server)

    def restart(self) -> None:
        """Kill it if it runs, and start the command again."""
        self.kill()
        self._server = self._start()

    def _start(self) -> ServerProcess:
        self._output.touch()
        self._begins = self._output.stat().st_size
        environment = os.environ | {METADATA_VARIABLE: self._url}
        arguments = (str(self._output), os.getcwd(), json.dumps(environment), *self._command)
        return self._servers.start(self._name, "pytest_mledger.program", *arguments)


def main(arguments: Sequence[str]) -> int:
    """Become the command: what the fork server runs in the process it forked. OSError when there is no such command."""
    output, directory, environment, *command = arguments
    file = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(file, _STDOUT)
    os.close(file)
    os.chdir(directory)
    os.execvpe(command[0], command, json.loads(environment))  # noqa: S606 - the tests' own command
