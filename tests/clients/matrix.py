"""Runs many scenarios at the same time on one cluster, disturbs them together, and has each judged."""

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mledger.admin.partitions import create_partitioned_topic
from mledger.metastore.url import open_store
from tests.clients.checker import FoundFault, check_run
from tests.clients.drivers import ClientDrivers
from tests.clients.history import ClientHistory
from tests.clients.judged_broker import JudgedCluster
from tests.clients.runs import ClientRuns
from tests.clients.scenario import Scenario
from tests.support.aio import run

T = TypeVar("T")

WITHIN_S = 240.0
_UNDER_WAY = 4  # messages answered before the disturbance
_AFTERWARDS = 4  # messages sent after it and answered
_numbers = itertools.count()


@dataclass(frozen=True)
class Judgement:
    """What is wrong with a run, and its events."""

    findings: Sequence[FoundFault]
    history: ClientHistory

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings))


def judge(
    cluster: JudgedCluster, drivers: ClientDrivers, scenarios: Iterable[Scenario], disturbance: str, directory: Path
) -> dict[Scenario, Judgement]:
    """Run the scenarios, which are all of this disturbance, and judge each."""
    topics = {each: f"persistent://public/default/judged-{next(_numbers)}" for each in scenarios}
    run(_create_partitioned(cluster.url, [(topics[each], each.partitions) for each in topics if each.partitions]))
    url = (cluster.proxy if disturbance == "connection cut" else cluster.broker).service_url
    orders = {each: each.order(url, topic) for each, topic in topics.items()}
    disturb = _disturbance(cluster, disturbance, list(topics.values()))
    with ClientRuns(drivers, orders, directory) as runs:
        if disturb is not None:
            _disturb(runs, disturb, clients_notice=disturbance != "bookie killed")
        runs.until_ended(WITHIN_S)
    return {each: Judgement(check_run(each, history), history) for each, history in runs.histories.items()}


def _disturb(runs: ClientRuns, disturb: Callable[[], Callable[[], None]], *, clients_notice: bool) -> None:
    """Disturb once everything is under way, and let the producers end when all have proved that they go on."""
    runs.until(lambda each: len(each.answered) >= _UNDER_WAY and bool(each.received), WITHIN_S)

    def noticed(act: Callable[[], T]) -> T:
        began = time.time()
        result = act()
        over = time.time()
        if clients_notice:
            for history in runs.histories.values():
                history.disturbed.append((began, over))
        runs.until(lambda each: sum(sent.at > over for sent in each.answered.values()) >= _AFTERWARDS, WITHIN_S)
        return result

    mend = noticed(disturb)
    noticed(mend)
    runs.enough()


def _disturbance(cluster: JudgedCluster, name: str, topics: Sequence[str]) -> Callable[[], Callable[[], None]] | None:
    """What disturbs, and returns what is to be done when clients go on."""

    def broker_killed() -> Callable[[], None]:
        cluster.broker.kill()
        cluster.broker.start()
        return _nothing

    def bookie_killed() -> Callable[[], None]:
        cluster.bookies.kill(0)
        return lambda: (cluster.bookies.restart(0), None)[1]

    def owner_moved() -> Callable[[], None]:
        if cluster.other is None:
            cluster.broker.move(topics)
            return _nothing
        cluster.other.start()
        cluster.broker.move(topics)
        return cluster.other.stop

    def connection_cut() -> Callable[[], None]:
        cluster.proxy.cut()
        return _nothing

    known = {
        "none": None,
        "broker killed": broker_killed,
        "bookie killed": bookie_killed,
        "owner moved": owner_moved,
        "connection cut": connection_cut,
    }
    return known[name]


def _nothing() -> None:
    return None


async def _create_partitioned(url: str, topics: Sequence[tuple[str, int]]) -> None:
    async with await open_store(url) as store:
        for topic, partitions in topics:
            await create_partitioned_topic(store, topic, partitions)
