"""Runs of clients: starts their drivers, records what they report, and tells them when they have produced enough."""

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mledger.metastore.runtime.child_processes import start_child
from tests.clients.builds import ROOT, driver_command
from tests.clients.history import ClientHistory
from tests.clients.scenario import Scenario

SILENCE_S = 90.0
"""More than a client waits before it tries again to connect."""
_PATIENCE_S = 0.5


class DriverEnded(Exception):
    """A driver ended before its runs did. Holds the end of its stderr."""


class ClientRuns:
    """Runs of several clients at the same time, each with its history by name. A context; its end kills the drivers."""

    def __init__(self, orders: Mapping[Scenario, Mapping[str, Any]], directory: Path) -> None:
        """`orders` is what each run's driver is given."""
        self.histories = {scenario: ClientHistory() for scenario in orders}
        self._by_name = {scenario.name: self.histories[scenario] for scenario in orders}
        self._orders, self._directory = orders, directory
        self._arrived = threading.Condition()
        self._last_event = time.monotonic()
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "ClientRuns":
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            clients = dict.fromkeys(scenario.client for scenario in self._orders)
            commands = {client: driver_command(client) for client in clients}  # built before any of them starts
            self._last_event = time.monotonic()
            for client, command in commands.items():
                self._start(client, command)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        for thread in self._threads:
            thread.join()
        for process in self._processes.values():
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.close()
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()

    def until(self, condition: Callable[[ClientHistory], bool], within_s: float) -> bool:
        """Wait until the condition holds of every run that neither ended nor failed; whether it came true.

        Runs that all say nothing for SILENCE_S are given up.
        """
        deadline = time.monotonic() + within_s
        with self._arrived:
            while not all(self._is_over(each) or condition(each) for each in self.histories.values()):
                if time.monotonic() > min(deadline, self._last_event + SILENCE_S):
                    return False
                self._check_drivers()
                self._arrived.wait(_PATIENCE_S)
        return True

    def until_ended(self, within_s: float) -> bool:
        """Wait for the end of every run; whether all ended."""
        return self.until(lambda each: each.ended, within_s)

    def enough(self) -> None:
        """Tell every run that it has produced enough."""
        for scenario in self.histories:
            process = self._processes[scenario.client]
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps({"enough": scenario.name}) + "\n")
                process.stdin.flush()

    def said(self, client: str) -> str:
        """The end of what a driver wrote to stderr."""
        return (self._directory / f"{client}.log").read_text(errors="replace")[-4000:]

    def _start(self, client: str, command: Sequence[str]) -> None:
        of_client: Sequence[Mapping[str, Any]] = [
            order for scenario, order in self._orders.items() if scenario.client == client
        ]
        with open(self._directory / f"{client}.log", "wb") as log:
            process = start_child(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT
            )
        self._processes[client] = process
        process.stdin.write(json.dumps({"scenarios": of_client}) + "\n")
        process.stdin.flush()
        thread = threading.Thread(target=self._record, args=(client, process), name=f"events of {client}")
        thread.start()
        self._threads.append(thread)

    def _record(self, client: str, process: "subprocess.Popen[str]") -> None:
        with open(self._directory / f"{client}.events", "w", buffering=1) as kept:
            for line in process.stdout or ():
                if not line.endswith("\n"):
                    break  # killed in the middle of a line
                kept.write(line)
                self._take(json.loads(line))
        with self._arrived:
            self._arrived.notify_all()

    def _take(self, event: Mapping[str, Any]) -> None:
        with self._arrived:
            self._by_name[event["scenario"]].record(event)
            self._last_event = time.monotonic()
            self._arrived.notify_all()

    @staticmethod
    def _is_over(history: ClientHistory) -> bool:
        return history.ended or bool(history.failures)

    def _check_drivers(self) -> None:
        for client, process in self._processes.items():
            left = [
                each.name for each, history in self.histories.items() if each.client == client and not history.ended
            ]
            if left and process.poll() not in (None, 0):
                raise DriverEnded(f"{client} ended with {process.returncode} before {left}:\n{self.said(client)}")
