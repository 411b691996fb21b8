"""kill -9 of the broker again and again under clients of every kind, a bookie down every second time.

Each client goes on by itself. Afterwards the checker compares all that each was told with all that it received.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from tests.clients.checker import FoundFault, check_run
from tests.clients.drivers import ClientDrivers
from tests.clients.history import ClientHistory
from tests.clients.judged_broker import JudgedCluster
from tests.clients.runs import ClientRuns
from tests.clients.scenario import CLIENTS, Scenario

WITHIN_S = 240.0
_BETWEEN = 4
"""Messages of each run that are sent and answered after a kill before the next one."""
_TYPES = {"python": ("exclusive", "shared"), "java": ("shared", "key_shared"), "go": ("failover", "shared")}


@dataclass
class BrokerKills:
    """What was killed, what clients were told meanwhile, and what is wrong with it."""

    kills: int = 0
    with_bookie_down: int = 0
    answered: int = 0
    acknowledged: int = 0
    received: int = 0
    longest_pause_s: float = 0.0
    findings: dict[str, list[FoundFault]] = field(default_factory=dict)


def load() -> list[Scenario]:
    """The runs that are under way: each client with two subscription types, in batches and not."""
    return [
        Scenario(
            client,
            kind,
            batching=bool(number),
            ack="batch_index" if number else "individual",
            receipts=client != "python",
            disturbance="broker killed",
        )
        for client in CLIENTS
        for number, kind in enumerate(_TYPES[client])
    ]


def kill_brokers(
    cluster: JudgedCluster, kills: int, directory: Path, on_kill: Callable[[int], object] = lambda _: None
) -> BrokerKills:
    """Kill the broker so often, each time when every client has gone on after the last time."""
    done = BrokerKills()
    orders = {
        each: each.order(cluster.broker.service_url, f"persistent://public/default/kills-{number}")
        for number, each in enumerate(load())
    }
    with ClientDrivers(directory) as drivers, ClientRuns(drivers, orders, directory) as runs:
        since = 0.0
        _until_all_go_on(runs, since)
        for number in range(kills):
            down = number // 2 % len(cluster.bookies) if number % 2 else None
            if down is not None:
                cluster.bookies.kill(down)
                done.with_bookie_down += 1
            began = time.time()
            cluster.broker.kill()
            cluster.broker.start()
            since = time.time()
            for history in runs.histories.values():
                history.disturbed.append((began, since))
            done.kills += 1
            _until_all_go_on(runs, since)
            done.longest_pause_s = max(done.longest_pause_s, time.time() - began)
            if down is not None:
                cluster.bookies.restart(down)
            on_kill(done.kills)
        runs.enough()
        runs.until_ended(WITHIN_S)
    for scenario, history in runs.histories.items():
        done.answered += len(history.answered)
        done.received += len(history.received)
        done.acknowledged += sum(each.answered for each in history.acknowledged)
        if findings := check_run(scenario, history):
            done.findings[scenario.name] = findings
    return done


def _until_all_go_on(runs: ClientRuns, since: float) -> None:
    """Wait until each producer and each subscription has gone on after a time."""

    def goes_on(history: ClientHistory) -> bool:
        recent = takewhile(lambda sent: sent.at > since, reversed(history.sent.values()))
        answered = sum(sent.place is not None for sent in recent)
        return answered >= _BETWEEN and bool(history.received) and history.received[-1].at > since

    assert runs.until(goes_on, WITHIN_S), "some clients did not go on"
