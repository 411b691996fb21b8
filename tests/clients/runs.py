"""Runs of clients at the same time: records what their drivers report, and tells when they have produced enough."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from tests.clients.drivers import ClientDrivers
from tests.clients.history import ClientHistory
from tests.clients.scenario import Scenario

SILENCE_S = 90.0
"""More than a client waits before it tries again to connect."""
_PATIENCE_S = 0.5


class DriverEnded(Exception):
    """A driver ended before its runs did. Holds the end of its stderr."""


class ClientRuns:
    """Runs of several clients at the same time, each with its history by name.

    A context. It kills the drivers at its end if runs are still under way: others begin with new ones. What the threads
    of such runs were doing is in the drivers' logs.
    """

    def __init__(self, drivers: ClientDrivers, orders: Mapping[Scenario, Mapping[str, Any]], directory: Path) -> None:
        """`orders` is what each run's driver is given. Events are kept in `directory`."""
        self.histories = {scenario: ClientHistory() for scenario in orders}
        self._by_name = {scenario.name: self.histories[scenario] for scenario in orders}
        self._drivers, self._orders, self._directory = drivers, orders, directory
        self._clients = list(dict.fromkeys(scenario.client for scenario in orders))
        self._kept: dict[str, TextIO] = {}
        self._arrived = threading.Condition()
        self._last_event = time.monotonic()

    def __enter__(self) -> "ClientRuns":
        self._directory.mkdir(parents=True, exist_ok=True)
        for client in self._clients:
            self._kept[client] = (self._directory / f"{client}.events").open("w", buffering=1)
        self._drivers.listener = self._take
        try:
            self._drivers.start(self._clients)
            self._last_event = time.monotonic()
            for client in self._clients:
                given = [order for scenario, order in self._orders.items() if scenario.client == client]
                self._drivers.run(client, given)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if not all(each.ended for each in self.histories.values()):
            self._drivers.show_threads()
            self._drivers.kill()
        with self._arrived:
            for kept in self._kept.values():
                kept.close()
            self._kept = {}

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
            self._drivers.enough(scenario.client, scenario.name)

    def _take(self, client: str, line: str) -> None:
        with self._arrived:
            if line and client in self._kept:
                self._kept[client].write(line)
                event = json.loads(line)
                self._by_name[event["scenario"]].record(event)
                self._last_event = time.monotonic()
            self._arrived.notify_all()

    @staticmethod
    def _is_over(history: ClientHistory) -> bool:
        return history.ended or bool(history.failures)

    def _check_drivers(self) -> None:
        for client in self._clients:
            left = [
                each.name for each, history in self.histories.items() if each.client == client and not history.ended
            ]
            code = self._drivers.ended_with(client)
            if left and code is not None:
                raise DriverEnded(f"{client} ended with {code} before {left}:\n{self._drivers.said(client)}")
