"""A broker process for tests: it starts, dies by kill -9, restarts on its port, and is cleaned up."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.aio import HANG_S
from tests.support.forked_python import ForkedPython

ROOT = Path(__file__).resolve().parents[2]
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
    port: int = 0
    service_url: str = ""
    pid: int = 0
    process: "subprocess.Popen[str] | None" = None

    def start(self) -> "BrokerRun":
        """Start, and wait until it serves; after the first start on the same port."""
        command = [sys.executable, "-m", "mledger.broker.process.main", "--metadata", self.metadata_url]
        command += ["--port", str(self.port), *self.options]
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
        self.service_url, self.port, self.pid = serving["service_url"], serving["port"], serving["pid"]
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
