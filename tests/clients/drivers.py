"""The clients' drivers: processes that run scenarios, group after group. JSON lines go in, and events come out."""

import contextlib
import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mledger.metastore.runtime.processes.child_processes import start_child
from tests.clients.builds import ROOT, driver_command

Listener = Callable[[str, str], None]
"""Takes a client and a line that its driver wrote; an empty one when the driver has ended."""

_LAST_WORDS_S = 10.0


class ClientDrivers:
    """A driver for each client, which starts when it is first needed. A context; its end kills them."""

    def __init__(self, directory: Path) -> None:
        """What they write to stderr is kept in `directory`."""
        self.listener: Listener = lambda _client, _line: None
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._threads: dict[str, threading.Thread] = {}

    def __enter__(self) -> "ClientDrivers":
        self._directory.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self, clients: Iterable[str]) -> None:
        """Start those of these clients that do not run."""
        missing = [client for client in clients if client not in self._processes]
        commands = {client: driver_command(client) for client in missing}  # built before any of them starts
        for client, command in commands.items():
            with open(self._log(client), "ab") as log:
                self._processes[client] = start_child(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT
                )
            thread = threading.Thread(target=self._listen, args=(client,), name=f"events of {client}")
            thread.start()
            self._threads[client] = thread

    def run(self, client: str, scenarios: Sequence[Mapping[str, Any]]) -> None:
        """Have a client's driver begin these runs."""
        self._tell(client, {"scenarios": scenarios})

    def enough(self, client: str, scenario: str) -> None:
        """Tell a run that it has produced enough."""
        self._tell(client, {"enough": scenario})

    def ended_with(self, client: str) -> int | None:
        """The exit code of a client's driver, None while it runs."""
        return self._processes[client].poll()

    def said(self, client: str) -> str:
        """The end of what a driver wrote to stderr."""
        return self._log(client).read_text(errors="replace")[-4000:]

    def show_threads(self) -> None:
        """Have them write to stderr what each of their threads does, and end. Afterwards only `kill` is of use."""
        for number in (signal.SIGQUIT, signal.SIGTERM):  # Go ends by the first; Java and Python take them in turn
            for process in self._processes.values():
                process.send_signal(number)
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LAST_WORDS_S)

    def kill(self) -> None:
        """Kill them; runs that are under way say nothing more."""
        for process in self._processes.values():
            process.kill()
            process.wait()
        for thread in self._threads.values():
            thread.join()
        for process in self._processes.values():
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.close()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        self._processes, self._threads = {}, {}

    def _log(self, client: str) -> Path:
        return self._directory / f"{client}.log"

    def _tell(self, client: str, message: Mapping[str, Any]) -> None:
        process = self._processes[client]
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()

    def _listen(self, client: str) -> None:
        for line in self._processes[client].stdout or ():
            if not line.endswith("\n"):
                break  # killed in the middle of a line
            self.listener(client, line)
        self.listener(client, "")
