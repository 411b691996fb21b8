"""Ports for the servers of a test run: each xdist worker has a range of its own, and so have containers.

A server that is killed does not hold its port until it is back: nobody else may choose it meanwhile.
"""

import os

import pytest

from metastore.runtime.ports import PORTS_VARIABLE, SERVER_PORTS
from metastore.zookeeper.launcher import free_port

CONTAINER_PORTS = range(12_000, SERVER_PORTS.start)
"""For servers in containers, which bind their ports long after these were chosen."""


def ports_of_worker(worker: str, workers: int) -> range:
    """The share of the worker named `gw0`, `gw1`, … of so many."""
    number = int(worker.removeprefix("gw"))
    size = len(SERVER_PORTS) // workers
    first = SERVER_PORTS.start + number % workers * size
    return range(first, first + size)


def keep_to_own_ports() -> None:
    """Have this process, and those that it starts, choose from the share of this worker, if it is one."""
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        ports = ports_of_worker(worker, int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
        os.environ[PORTS_VARIABLE] = f"{ports.start}-{ports.stop - 1}"


def environment_of_commands() -> dict[str, str]:
    """This process's environment without what its user may have set for `mledger`."""
    return {key: value for key, value in os.environ.items() if key == PORTS_VARIABLE or not key.startswith("MLEDGER_")}


def free_container_port() -> int:
    """A port for a server in a container."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PORTS_VARIABLE, f"{CONTAINER_PORTS.start}-{CONTAINER_PORTS.stop - 1}")
        return free_port()
