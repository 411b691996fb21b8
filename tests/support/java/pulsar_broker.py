"""A real Pulsar broker: Maven fetches its jars, it runs as a process, and tests ask its admin REST API.

`tests/interop/pulsar_broker/pom.xml` names the version. The broker listens on 127.0.0.1 and ends with the test run.
"""

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mledger.metastore.runtime.processes.child_processes import start_child
from mledger.metastore.session import SESSION_TIMEOUT_S
from tests.support.aio import HANG_S
from tests.support.java.driver import PROJECT, QUICK_JAVA, run_maven
from tests.support.ports import free_late_port

CLUSTER = "test"
BROKER_PROJECT = PROJECT / "pulsar_broker"
TARGET = BROKER_PROJECT / "target"
DEFAULTS = {
    "clusterName": CLUSTER,
    "bindAddress": "127.0.0.1",
    "advertisedAddress": "127.0.0.1",
    "metadataStoreSessionTimeoutMillis": int(
        SESSION_TIMEOUT_S * 1000
    ),  # after that, what a killed broker owned is free
    "managedLedgerDefaultEnsembleSize": 3,
    "managedLedgerDefaultWriteQuorum": 3,
    "managedLedgerDefaultAckQuorum": 2,
    "managedLedgerCacheSizeMB": 32,
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "numIOThreads": 2,
    "numHttpServerThreads": 8,
    "bookkeeperClientNumWorkerThreads": 1,
    "bookkeeperClientNumIoThreads": 1,
    "webSocketServiceEnabled": "false",
}
OPENED = ("java.io", "java.nio", "java.lang", "java.util.zip", "jdk.internal.misc", "jdk.internal.platform", "sun.net")
LOGGING = """<Configuration status="warn"><Appenders><Console name="console">
<PatternLayout pattern="%d{ISO8601} [%t] %-5p %c{1} - %m%n"/></Console></Appenders>
<Loggers><Root level="info"><AppenderRef ref="console"/></Root></Loggers></Configuration>
"""


class BrokerFailed(Exception):
    """A process of Pulsar ended, or did not begin to serve. Holds the end of its log."""


class AdminError(Exception):
    """The admin REST API refused a request: `status`, and the message."""

    def __init__(self, request: str, status: int, body: str) -> None:
        super().__init__(f"{request}: {status} {body}")
        self.status = status


def build() -> str:
    """The class path of the broker. Maven runs only after a change of its project."""
    run_maven(BROKER_PROJECT, TARGET, ("dependency:copy-dependencies",), {})
    return str(TARGET / "lib" / "*")


class PulsarProcess:
    """A program of Pulsar's distribution as a process. Its configuration and log are in its directory."""

    def __init__(self, class_path: str, directory: Path, name: str, *, heap_mb: int = 256, fast: bool = False) -> None:
        """`fast` is for measurements: full compilation and a collector that runs in parallel."""
        tuning = ["-XX:+UseG1GC"] if fast else QUICK_JAVA
        self.directory, self.name = directory, name
        self.log_path = directory / f"{name}.log"
        self._options = [
            "java",
            f"-Xmx{heap_mb}m",
            f"-XX:MaxDirectMemorySize={heap_mb}m",
            *tuning,
            f"-Djava.io.tmpdir={directory}",  # libraries are unpacked there, and remain after a kill
            "-Djava.net.preferIPv4Stack=true",
            "-Dio.netty.tryReflectionSetAccessible=true",
            "-Dlog4j.shutdownHookEnabled=false",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
            "--add-opens=java.management/sun.management=ALL-UNNAMED",
            "-cp",
            f"{directory}{os.pathsep}{class_path}",
        ]
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "log4j2.xml").write_text(LOGGING)

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def launch(self, main_class: str, *arguments: object) -> None:
        """Start it without waiting."""
        assert not self.running
        with open(self.log_path, "ab") as log:
            self._process = start_child(
                [*self._options, main_class, *map(str, arguments)],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def finish(self) -> None:
        """Wait for its end. Raises BrokerFailed if it failed."""
        assert self._process is not None
        if code := self._process.wait(HANG_S):
            raise self.failure(f"ended with {code}")

    def kill(self) -> None:
        """End it by kill -9, as in a crash."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end, and wait until it has ended."""
        self._end(signal.SIGTERM)

    def failure(self, what: str) -> BrokerFailed:
        """An error with the end of the log."""
        return BrokerFailed(f"{self.name} {what}:\n{self.log()[-6000:]}")

    def log(self) -> str:
        """Everything it has logged so far."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def _end(self, number: int) -> None:
        if self._process is not None and self.running:
            self._process.send_signal(number)
            self._process.wait(HANG_S)


class PulsarBroker:
    """One broker of a cluster. After a kill or a stop it can start again on the same ports."""

    def __init__(
        self,
        class_path: str,
        directory: Path,
        zookeeper: str,
        settings: Mapping[str, object],
        arguments: Sequence[str] = (),
        *,
        heap_mb: int = 384,
    ) -> None:
        """Write its configuration; `settings` are further lines of it, `arguments` further ones of its program."""
        self._arguments = tuple(arguments)
        self.port, self.web_port = free_late_port(), free_late_port()
        self.process = PulsarProcess(class_path, directory, "broker", heap_mb=heap_mb)
        self._configuration = directory / "broker.conf"
        configuration = {
            **DEFAULTS,
            "metadataStoreUrl": f"zk:{zookeeper}",
            "configurationMetadataStoreUrl": f"zk:{zookeeper}",
            "brokerServicePort": self.port,
            "webServicePort": self.web_port,
            **settings,
        }
        self._configuration.write_text("".join(f"{name}={value}\n" for name, value in configuration.items()))

    @property
    def service_url(self) -> str:
        """For clients."""
        return f"pulsar://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and return when it serves namespaces. Raises BrokerFailed if it ends instead."""
        self.process.launch(
            "org.apache.pulsar.PulsarBrokerStarter", "--broker-conf", self._configuration, *self._arguments
        )
        wait_for_namespaces(self.process, self.web_port)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.process.kill()

    def stop(self) -> None:
        """End it in order: it closes its topics and gives up its bundles."""
        self.process.stop()

    def get(self, path: str) -> Any:
        """The answer of the admin REST API to a GET. Raises AdminError."""
        return self.ask("GET", path)

    def ask(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Any:
        """Send one request below `/admin`, with `body` as JSON or as bytes, and return its JSON answer or None."""
        return _ask(self.web_port, method, path, body, content_type)


def wait_for_namespaces(process: PulsarProcess, web_port: int) -> None:
    """Return when a broker or a standalone serves its namespaces. Raises BrokerFailed if it ends instead."""
    until = time.monotonic() + HANG_S
    while not _serves(web_port):
        if not process.running or time.monotonic() > until:
            raise process.failure("does not serve")
        time.sleep(0.1)


def _serves(web_port: int) -> bool:
    try:
        return "public/default" in _ask(web_port, "GET", "v2/namespaces/public", None, "application/json")
    except (OSError, AdminError, ValueError):
        return False


def _ask(web_port: int, method: str, path: str, body: Any, content_type: str) -> Any:
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    url = f"http://127.0.0.1:{web_port}/admin/{path}"
    request = urllib.request.Request(url, data, {"Content-Type": content_type}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=HANG_S) as response:
            answer = response.read()
    except urllib.error.HTTPError as error:
        raise AdminError(f"{method} {url}", error.code, error.read().decode(errors="replace")) from None
    return json.loads(answer) if answer else None


def set_up_cluster(class_path: str, directory: Path, zookeeper: str, broker: PulsarBroker) -> None:
    """Write a new cluster's metadata as its operator does; `/ledgers` is created if it does not exist."""
    setup = PulsarProcess(class_path, directory, "setup", heap_mb=128)
    setup.launch(
        "org.apache.pulsar.PulsarClusterMetadataSetup",
        *("--cluster", CLUSTER),
        *("--metadata-store", f"zk:{zookeeper}"),
        *("--configuration-metadata-store", f"zk:{zookeeper}"),
        *("--web-service-url", f"http://127.0.0.1:{broker.web_port}"),
        *("--broker-service-url", broker.service_url),
    )
    setup.finish()
