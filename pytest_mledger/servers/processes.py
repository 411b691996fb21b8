"""Starts, signals and waits for the servers of a cluster from the test's process."""

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mledger.metastore.runtime.network.fork_guard import hold, let_go
from mledger.metastore.runtime.processes.child_processes import ONE_BLAS_THREAD, python_command, python_environment
from pytest_mledger.servers.worker_ports import plan_ports

START_TIMEOUT_S = 180.0
END_TIMEOUT_S = 90.0
_READ_BYTES = 65536
_LOOK_S = 0.05
"""So long a thread may sleep though another has read what it waits for."""


class ClusterFailed(Exception):
    """A server did not start or end as requested; the message has the end of its log."""


@dataclass(slots=True)
class ServerProcess:
    """The known state of a server's latest process."""

    name: str
    log: Path
    pid: int = 0
    serving: dict[str, Any] | None = None
    code: int | None = None
    clock_s: float = 0.0
    """By how much its clock has moved."""

    @property
    def running(self) -> bool:
        """Whether the process has not ended, as far as known."""
        return self.code is None


class Servers:
    """Servers started by one fork server; they end with it, and it ends with this process.

    Several threads may use it. A process that this one forks may not: it has neither end of the fork server's pipes.
    """

    def __init__(self, directory: Path) -> None:
        """Start the fork server; its log and those of the servers are in `directory`."""
        self.directory = directory
        self._servers: dict[str, ServerProcess] = {}
        self._received = b""
        self._reading, self._writing = threading.Lock(), threading.Lock()
        self._owner = os.getpid()
        with (directory / "fork_server.log").open("ab") as log:
            self._process = subprocess.Popen(
                python_command("pytest_mledger.servers.fork_server"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=directory,
                env=python_environment()
                | plan_ports(os.environ)
                | dict([ONE_BLAS_THREAD]),  # whatever is set: no thread before a fork
                start_new_session=True,  # Ctrl-C must not reach the servers, which fixtures still need then
                bufsize=0,
            )
        os.set_blocking(self._stdout, False)  # another thread may have read what this one was woken for
        for end in (self._stdin, self._stdout):
            hold(end)

    @property
    def own(self) -> bool:
        """Whether this process started them; a forked one must leave them and their files alone."""
        return os.getpid() == self._owner

    def prepare(self, *modules: str) -> None:
        """Have the fork server import modules for later servers."""
        for module in modules:
            self._request(prepare=module)

    def start(self, name: str, module: str, *arguments: str) -> ServerProcess:
        """Start a server without waiting for it."""
        server = self._servers[name] = ServerProcess(name, self.directory / f"{name}.log")
        self._request(start=name, module=module, arguments=arguments, log=str(server.log))
        return server

    def signal(self, server: ServerProcess, number: int) -> None:
        """Send a signal; does nothing if the server has ended."""
        self._request(signal=number, name=server.name)

    def end(self, server: ServerProcess, number: int) -> None:
        """Send SIGKILL or SIGTERM and wait until the server has ended, even if it is frozen."""
        self.signal(server, number)
        self.signal(server, signal.SIGCONT)
        self.wait_ended(server)

    def wait_serving(self, server: ServerProcess) -> dict[str, Any]:
        """Wait until the server serves, and return what it reports; ClusterFailed if it ends instead."""
        self._wait(lambda: server.serving is not None or not server.running, f"{server.name} to serve", START_TIMEOUT_S)
        if server.serving is None:
            raise ClusterFailed(f"{server.name} ended with {server.code} instead of serving: {_log(server.log)}")
        return server.serving

    def wait_ended(self, server: ServerProcess) -> int:
        """Wait until the server has ended; returns the exit code, or minus the number of the signal that ended it."""
        self._wait(lambda: not server.running, f"{server.name} to end", END_TIMEOUT_S)
        assert server.code is not None
        return server.code

    def wait_clock(self, server: ServerProcess, clock_s: float) -> None:
        """Wait until the server's clock has moved so far; ClusterFailed if it ends instead."""
        self._wait(
            lambda: server.clock_s == clock_s or not server.running, f"the clock of {server.name}", START_TIMEOUT_S
        )
        if not server.running:
            raise ClusterFailed(f"{server.name} ended with {server.code} as its clock moved: {_log(server.log)}")

    def look(self) -> None:
        """Process the events so far, without waiting. A forked process knows what its parent knew when it forked."""
        while self.own and select.select([self._stdout], [], [], 0)[0]:
            self._read()

    def frozen(self, server: ServerProcess) -> bool:
        """Whether the server's process is stopped by a signal, whoever sent it."""
        return server.running and _is_stopped(server.pid)

    def close(self) -> None:
        """End every server at once, and the fork server; does nothing in a forked process."""
        if not self.own:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for end in (self._stdin, self._stdout):
            let_go(end)
        with contextlib.suppress(ClusterFailed):  # it has ended
            self._request(end=True)
        self._process.stdin.close()
        if _is_stopped(self._process.pid):
            self._process.send_signal(signal.SIGKILL)
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(END_TIMEOUT_S)
        self._process.stdout.close()

    @property
    def _stdin(self) -> int:
        assert self._process.stdin is not None
        return self._process.stdin.fileno()

    @property
    def _stdout(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def _request(self, **request: object) -> None:
        self._check_own()
        assert self._process.stdin is not None
        try:
            with self._writing:
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            raise self._gone() from None

    def _wait(self, done: Callable[[], bool], what: str, timeout_s: float) -> None:
        self._check_own()
        deadline = time.monotonic() + timeout_s
        while not done():
            left = deadline - time.monotonic()
            if left <= 0:
                raise ClusterFailed(
                    f"waited {timeout_s:g} s for {what}, then gave up: see the logs in {self.directory}"
                )
            if select.select([self._stdout], [], [], min(left, _LOOK_S))[0]:
                self._read()

    def _read(self) -> None:
        """Process what there is; nothing if another thread has done so."""
        with self._reading:
            try:
                data = os.read(self._stdout, _READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                raise self._gone()
            *lines, self._received = (self._received + data).split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        if "started" in event:
            self._servers[event["started"]].pid = event["pid"]
        elif "ended" in event:
            self._servers[event["ended"]].code = event["code"]
        else:
            for server in self._servers.values():
                if server.running and server.pid == event["pid"]:
                    if "clock_s" in event:
                        server.clock_s = event["clock_s"]
                    else:
                        server.serving = event

    def _check_own(self) -> None:
        if not self.own:
            raise ClusterFailed(
                f"process {os.getpid()} was forked from process {self._owner}, which has the servers: "
                "start, signal and await them there"
            )

    def _gone(self) -> ClusterFailed:
        return ClusterFailed(
            f"the process that starts the servers has ended: {_log(self.directory / 'fork_server.log')}"
        )


def _is_stopped(pid: int) -> bool:
    import psutil  # imported only when it is needed

    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False


def log_end(text: str, lines: int = 20) -> str:
    """The last lines of a log, after a line break."""
    last: Sequence[str] = text.strip().splitlines()[-lines:]
    return "\n" + "\n".join(last) if last else "it is empty"


def _log(path: Path) -> str:
    return log_end(path.read_text(errors="replace")) if path.exists() else "it has no log"
