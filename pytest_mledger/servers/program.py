"""A user's program in its own process, for example an owner that a test kills and restarts."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from pytest_mledger.servers.processes import ClusterFailed, ServerProcess, Servers, log_end

METADATA_VARIABLE = "MLEDGER_METADATA"
_STDOUT = 1
_LOOK_S = 0.005


class Program:
    """A command that runs in the directory of the tests, with the cluster's URL in MLEDGER_METADATA."""

    def __init__(self, servers: Servers, name: str, url: str, command: Sequence[str]) -> None:
        """Use `RunningCluster.program`."""
        self._servers, self._name, self._command = servers, name, tuple(command)
        self._url = url
        self._output = servers.directory / f"{name}.out"
        self._begins = 0
        self._server = self._start()

    @property
    def pid(self) -> int:
        """The process id, 0 before it is known; that of the last process if none is running."""
        self._servers.look()
        return self._server.pid

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        self._servers.look()
        return self._server.running

    @property
    def output(self) -> str:
        """What its current process has printed to stdout; stderr is in `log`."""
        with self._output.open("rb") as file:
            file.seek(self._begins)
            return file.read().decode(errors="replace")

    @property
    def log(self) -> Path:
        """The path of its log, with the stderr of its processes."""
        return self._server.log

    def wait_for(self, line: str, timeout_s: float = 90.0) -> None:
        """Wait until its current process has printed `line`; ClusterFailed if it ends or takes too long."""
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
        """Send SIGKILL and wait until it has ended; does nothing if it is not running."""
        self._servers.signal(self._server, signal.SIGKILL)
        self._servers.wait_ended(self._server)

    def wait(self) -> int:
        """Wait until it ends; returns the exit code."""
        return self._servers.wait_ended(self._server)

    def restart(self) -> None:
        """Kill it if it is running, and start the command again."""
        self.kill()
        self._server = self._start()

    def _start(self) -> ServerProcess:
        self._output.touch()
        self._begins = self._output.stat().st_size
        environment = os.environ | {METADATA_VARIABLE: self._url}
        arguments = (str(self._output), os.getcwd(), json.dumps(environment), *self._command)
        return self._servers.start(self._name, "pytest_mledger.servers.program", *arguments)


def main(arguments: Sequence[str]) -> int:
    """Run the command in the process that the fork server forked. OSError if there is no such command."""
    output, directory, environment, *command = arguments
    file = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(file, _STDOUT)
    os.close(file)
    os.chdir(directory)
    os.execvpe(command[0], command, json.loads(environment))  # noqa: S606 - the tests' own command
