"""The ports of servers under pytest-xdist: a range for each worker, so that no other takes that of a killed server."""

from collections.abc import Mapping

from mledger.metastore.runtime.network.port_ranges import PORTS_VARIABLE, SERVER_PORTS

WORKER, WORKERS = "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"


def ports_of_worker(worker: str, workers: int, ports: range = SERVER_PORTS) -> range:
    """The part of `ports` for the worker named `gw0`, `gw1` and so on, of so many workers."""
    number = int(worker.removeprefix("gw"))
    size = len(ports) // workers
    first = ports.start + number % workers * size
    return range(first, first + size)


def plan_ports(environment: Mapping[str, str]) -> dict[str, str]:
    """The variable that gives this process's servers their ports: none outside xdist, or if it is set already."""
    worker = environment.get(WORKER)
    if not worker or PORTS_VARIABLE in environment:
        return {}
    ports = ports_of_worker(worker, int(environment[WORKERS]))
    return {PORTS_VARIABLE: f"{ports.start}-{ports.stop - 1}"}
