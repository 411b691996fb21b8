"""Ports for the servers of a test run: each xdist worker has a range of its own, and so have containers.

A server that is killed does not hold its port until it is back: nobody else may choose it meanwhile.
"""

import os

import pytest

from mledger.cli.shared.context_file import FILE_VARIABLE
from mledger.metastore.runtime.ports import PORTS_VARIABLE, SERVER_PORTS
from mledger.metastore.zookeeper.launcher import free_port

LATE_PORTS = range(10_000, SERVER_PORTS.start)
"""For servers that bind their ports long after these were chosen: in containers, Java ones with a configuration."""

_given: set[int] = set()


def ports_of_worker(worker: str, workers: int, ports: range = SERVER_PORTS) -> range:
    """The share of `ports` of the worker named `gw0`, `gw1`, … of so many."""
    number = int(worker.removeprefix("gw"))
    size = len(ports) // workers
    first = ports.start + number % workers * size
    return range(first, first + size)


def _own(ports: range) -> range:
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    return ports_of_worker(worker, int(os.environ["PYTEST_XDIST_WORKER_COUNT"]), ports) if worker else ports


def keep_to_own_ports() -> None:
    """Have this process, and those that it starts, choose from the share of this worker, if it is one."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        ports = _own(SERVER_PORTS)
        os.environ[PORTS_VARIABLE] = f"{ports.start}-{ports.stop - 1}"


def environment_of_commands() -> dict[str, str]:
    """This process's environment without what its user may have set for `mledger`."""
    kept = (PORTS_VARIABLE, FILE_VARIABLE)
    return {key: value for key, value in os.environ.items() if key in kept or not key.startswith("MLEDGER_")}


def free_late_port() -> int:
    """A port for a server that binds it later: of LATE_PORTS, each given once."""
    ports = _own(LATE_PORTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PORTS_VARIABLE, f"{ports.start}-{ports.stop - 1}")
        while (port := free_port()) in _given:
            pass
    _given.add(port)
    return port
