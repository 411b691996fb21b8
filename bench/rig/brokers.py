"""Brokers as processes for a benchmark: ours, the minimal one, and Java Pulsar's standalone; and the load on them."""

import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from bench.rig.cluster import ROOT
from mledger.metastore.zookeeper.launcher import free_port
from tests.clients.builds import go_program
from tests.support.java import pulsar_broker

PULSAR = "Pulsar 4.2.4 standalone"
LOAD_TIMEOUT_S = 300.0
_SYNCED_STANDALONE = """clusterName=standalone
brokerServicePort={port}
webServicePort={web_port}
bindAddress=127.0.0.1
advertisedAddress=127.0.0.1
managedLedgerDefaultEnsembleSize=1
managedLedgerDefaultWriteQuorum=1
managedLedgerDefaultAckQuorum=1
loadManagerClassName=org.apache.pulsar.broker.loadbalance.NoopLoadManager
loadBalancerEnabled=false
journalSyncData=true
journalWriteData=true
journalMaxGroupWaitMSec=1
ledgerStorageClass=org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage
nettyMaxFrameSizeBytes=5253120
diskUsageThreshold=0.99
diskUsageWarnThreshold=0.99
allowLoopback=true
listeningInterface=lo
"""
_topics = itertools.count()


class BenchedBroker(Protocol):
    """A running broker; a context."""

    service_url: str

    def __enter__(self) -> "BenchedBroker": ...

    def __exit__(self, *_: object) -> None: ...


class PythonBroker:
    """A context: a broker that is a Python module, which prints one line once it serves."""

    def __init__(self, module: str, *arguments: object) -> None:
        self._command = [sys.executable, "-m", module, *map(str, arguments)]
        self.service_url = ""

    def __enter__(self) -> "PythonBroker":
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=subprocess.PIPE, stderr=self._log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(self._command)} ended with {self._process.wait()}")
        told = json.loads(line)
        self.metrics_port: int | None = None if isinstance(told, int) else told.get("metrics_port")
        self.service_url = f"pulsar://127.0.0.1:{told if isinstance(told, int) else told['port']}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def entries_read(self) -> float | None:
        """How many entries it has read from bookies; None if it has no metrics."""
        if self.metrics_port is None:
            return None
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("mledger_read_entries_total"))


def our_broker(metadata: str, bookies: int, *options: str) -> PythonBroker:
    """Our broker on a cluster with so many bookies."""
    more = (*_quorums(bookies), *options)
    return PythonBroker("mledger.broker.process.main", "--metadata", metadata, "--port", 0, *more)


def minimal_broker(metadata: str, bookies: int) -> PythonBroker:
    """The minimal broker on the same."""
    return PythonBroker("bench.processes.minimal_broker", metadata, "--quorum", bookies)


def _quorums(bookies: int) -> Sequence[str]:
    values = {"EnsembleSize": bookies, "WriteQuorum": bookies, "AckQuorum": max(1, bookies - 1)}
    return [word for name, value in values.items() for word in ("--set", f"managedLedgerDefault{name}={value}")]


class StandalonePulsar:
    """A context: Java Pulsar's standalone, broker, bookie and metadata in one process, journal synced."""

    def __enter__(self) -> "StandalonePulsar":
        self._directory = Path(tempfile.mkdtemp(prefix="bench-"))
        self._process = pulsar_broker.PulsarProcess(
            pulsar_broker.build(), self._directory, "standalone", heap_mb=2048, fast=True
        )
        port, web_port, bookie_port = free_port(), free_port(), free_port()
        configuration = self._directory / "standalone.conf"
        configuration.write_text(_SYNCED_STANDALONE.format(port=port, web_port=web_port))
        self.service_url, self.admin_url = f"pulsar://127.0.0.1:{port}", f"http://127.0.0.1:{web_port}"
        try:
            self._process.launch(
                "org.apache.pulsar.PulsarStandaloneStarter",
                *("--config", configuration, "-nfw", "-nss"),
                *("--metadata-dir", self._directory / "metadata", "--bookkeeper-dir", self._directory / "bookkeeper"),
                *("--bookkeeper-port", bookie_port),
            )
            pulsar_broker.wait_for_namespaces(self._process, web_port)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid


def load(service_url: str, seconds: float, options: Sequence[str]) -> dict[str, Any]:
    """Publish to a new topic, consume if the options say so, and return the figures."""
    topic = f"persistent://public/default/bench-{next(_topics)}"
    command = [str(go_program("load")), "-url", service_url, "-topic", topic, "-seconds", str(seconds), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=LOAD_TIMEOUT_S)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures
