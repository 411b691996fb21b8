"""Brokers that need nothing else, as users start them for tests: ours, Java Pulsar's standalone, and pulsar-lite."""

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from bench.rig.brokers import PULSAR, StandalonePulsar
from bench.rig.cluster import ROOT
from mledger.metastore.zookeeper.launcher import free_port
from tests.support.java.driver import missing_tools

LITE = "pulsar-lite"
START_S = 60.0
_MIB = 1 << 20


class RunningStandalone:
    """A standalone that serves; `admin_url` is empty if it has no admin API. A context."""

    service_url: str
    admin_url = ""
    ready_s: float
    """From the start of its process until it said, or showed, that it serves."""
    process: psutil.Process

    def __enter__(self) -> "RunningStandalone":
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        raise NotImplementedError

    def memory_mib(self) -> float:
        """Resident memory now."""
        return float(self.process.memory_info().rss) / _MIB

    def cpu_s(self) -> float:
        """User and system time so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


class OurStandalone(RunningStandalone):
    """`mledger standalone`, ephemeral; or with its data kept, which it syncs before it answers."""

    def __init__(self, *, kept: bool = False) -> None:
        self._kept = kept

    def __enter__(self) -> "OurStandalone":
        self._directory = Path(tempfile.mkdtemp(prefix="bench-"))
        place = ("--data-dir", str(self._directory / "data")) if self._kept else ("--ephemeral",)
        options = (*place, "--port", "0", "--http-port", "0", "--output", "json", "--log-level", "warning")
        began = time.perf_counter()
        command = [sys.executable, "-m", "mledger.standalone", *options]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self._child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        assert self._child.stdout is not None
        told = json.loads(self._child.stdout.readline())
        self.ready_s = time.perf_counter() - began
        self.service_url, self.admin_url = told["service_url"], told["admin_url"]
        self.process = psutil.Process(self._child.pid)
        return self

    def __exit__(self, *_: object) -> None:
        self._child.terminate()
        self._child.communicate()
        shutil.rmtree(self._directory, ignore_errors=True)


class JavaStandalone(RunningStandalone):
    """Java Pulsar's standalone, which Maven supplies; its journal is synced."""

    def __enter__(self) -> "JavaStandalone":
        self._pulsar = StandalonePulsar()
        began = time.perf_counter()
        self._pulsar.__enter__()
        self.ready_s = time.perf_counter() - began
        self.service_url, self.admin_url = self._pulsar.service_url, self._pulsar.admin_url
        self.process = psutil.Process(self._pulsar.pid)
        return self

    def __exit__(self, *_: object) -> None:
        self._pulsar.__exit__()


class PulsarLite(RunningStandalone):
    """The program of the package pulsar-lite of PyPI. It stores messages without syncing, and has no admin API."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def __enter__(self) -> "PulsarLite":
        self._directory = Path(tempfile.mkdtemp(prefix="bench-"))
        address = "127.0.0.1", free_port()
        options = ("--addr", f"{address[0]}:{address[1]}", "--db-path", str(self._directory / "lite.db"))
        began = time.perf_counter()
        with (self._directory / "log").open("wb") as log:
            self._child = subprocess.Popen([self._program, *options], cwd=self._directory, stdout=log, stderr=log)
        self.process = psutil.Process(self._child.pid)
        while not _answers(address):
            if self._child.poll() is not None or time.perf_counter() - began > START_S:
                self.__exit__()
                raise RuntimeError(f"{self._program} does not serve")
            time.sleep(0.002)
        self.ready_s = time.perf_counter() - began
        self.service_url = f"pulsar://{address[0]}:{address[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


def _answers(address: tuple[str, int]) -> bool:
    with suppress(OSError), socket.create_connection(address, 1.0):
        return True
    return False


def find_peers(*, java: bool) -> Mapping[str, Callable[[], RunningStandalone]]:
    """The peers that this machine has: Java's, if Maven and Java are there, and pulsar-lite, if it is installed."""
    peers: dict[str, Callable[[], RunningStandalone]] = {}
    lite = importlib.util.find_spec("pulsar_lite")
    if lite is not None and lite.submodule_search_locations:
        program = Path(next(iter(lite.submodule_search_locations)), "bin", "pulsar-lite")
        peers[LITE] = lambda: PulsarLite(program)
    if java and not missing_tools():
        peers[PULSAR] = JavaStandalone
    return peers
