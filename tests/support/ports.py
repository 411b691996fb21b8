"""Ports for the servers of a test run. Each xdist worker has a range of its own, and so do containers.

A killed server does not hold its port until it is back: nothing else may choose the port meanwhile.
"""

import os

import pytest

from mledger.cli.shared.context_file import FILE_VARIABLE
from mledger.metastore.runtime.network.port_ranges import PORTS_VARIABLE, SERVER_PORTS
from mledger.metastore.zookeeper.launcher import free_port
from pytest_mledger.servers.worker_ports import ports_of_worker

LATE_PORTS = range(10_000, SERVER_PORTS.start)
"""For servers that bind their ports long after the choice: in containers, or Java servers with a configuration."""

_given: set[int] = set()


def _own(ports: range) -> range:
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    return ports_of_worker(worker, int(os.environ["PYTEST_XDIST_WORKER_COUNT"]), ports) if worker else ports


def keep_to_own_ports() -> None:
    """Make this process and its children choose ports from this worker's part, if it is a worker."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        ports = _own(SERVER_PORTS)
        os.environ[PORTS_VARIABLE] = f"{ports.start}-{ports.stop - 1}"


def environment_of_commands() -> dict[str, str]:
    """This process's environment without the user's settings for `mledger`."""
    kept = (PORTS_VARIABLE, FILE_VARIABLE)
    return {key: value for key, value in os.environ.items() if key in kept or not key.startswith("MLEDGER_")}


def free_late_port() -> int:
    """A port for a server that binds it later: one of LATE_PORTS, each given out once."""
    ports = _own(LATE_PORTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PORTS_VARIABLE, f"{ports.start}-{ports.stop - 1}")
        while (port := free_port()) in _given:
            pass
    _given.add(port)
    return port
