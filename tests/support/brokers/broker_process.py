"""A broker process for tests: it starts, dies by kill -9, restarts on its port, and is cleaned up.

And the official Python client against one with TLS or authentication.
"""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pulsar
import pytest

from tests.support.aio import HANG_S
from tests.support.forked_python import ForkedPython

ROOT = Path(__file__).resolve().parents[3]
ONE_BOOKIE = (
    "managedLedgerDefaultEnsembleSize=1",
    "managedLedgerDefaultWriteQuorum=1",
    "managedLedgerDefaultAckQuorum=1",
)


@dataclass
class BrokerRun:
    """`mledger broker run` on a metadata store. Its log outlives its processes."""

    metadata_url: str
    log_path: Path
    settings: tuple[str, ...] = ONE_BOOKIE
    options: tuple[str, ...] = ()
    port: int | None = 0  # None: what the settings say
    service_url: str = ""
    service_url_tls: str = ""
    web_port: int = 0
    web_port_tls: int = 0
    pid: int = 0
    process: "subprocess.Popen[str] | None" = None

    def start(self) -> "BrokerRun":
        """Start, and wait until it serves; after the first start on the same port."""
        command = [sys.executable, "-m", "mledger.broker.process.main", "--metadata", self.metadata_url]
        command += [*([] if self.port is None else ["--port", str(self.port)]), *self.options]
        for setting in self.settings:
            command += ["--set", setting]
        with self.log_path.open("a") as log:
            self.process = ForkedPython(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log_path.read_text()
        serving = json.loads(line)
        self.service_url, self.service_url_tls = serving.get("service_url", ""), serving.get("service_url_tls", "")
        self.port, self.pid = serving.get("port"), serving["pid"]
        self.web_port, self.web_port_tls = serving.get("metrics_port", 0), serving.get("web_port_tls", 0)
        return self

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self.process is not None and self.process.poll() is None

    def signal(self, number: int) -> int:
        """Send a signal and wait for the end; the exit code."""
        assert self.process is not None
        os.kill(self.pid, number)
        code = self.process.wait(HANG_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        self.signal(signal.SIGKILL)

    def stop(self) -> int:
        """Send SIGTERM, wait for the orderly end, and return the exit code."""
        return self.signal(signal.SIGTERM)


QUIET = logging.getLogger("secured broker")
QUIET.setLevel(logging.CRITICAL)


def tls(certified, *more):
    """The settings that encrypt both ports."""
    files = (f"tlsCertificateFilePath={certified.certificate}", f"tlsKeyFilePath={certified.key}")
    return (*ONE_BOOKIE, "brokerServicePortTls=0", "webServicePortTls=0", *files, *more)


@contextlib.contextmanager
def started(url, log, *settings, options=(), port=0):
    """A running broker, which leaves the cluster in order: no other one is told of it afterwards."""
    run = BrokerRun(url, log, settings, options, port=port)
    run.start()
    try:
        yield run
    finally:
        run.stop()


def exchange(url, topic, authority=None, **fields):
    """What a client receives of a message that it sends."""
    given = {"tls_validate_hostname": True, "logger": QUIET, "operation_timeout_seconds": 60}
    if authority is not None:
        given["tls_trust_certs_file_path"] = str(authority)
    client = pulsar.Client(url, **{**given, **fields})
    try:
        consumer = client.subscribe(topic, "sub")
        client.create_producer(topic).send(b"hello")
        return consumer.receive(60_000).data()
    finally:
        client.close()


def fails(url, topic, authority=None, error=pulsar.PulsarException, **fields):
    """The client does not come as far as that."""
    with pytest.raises(error):
        exchange(url, topic, authority, operation_timeout_seconds=3, **fields)


def own(certified):
    """A client's own certificate as its credentials."""
    return pulsar.AuthenticationTLS(str(certified.certificate), str(certified.key))
