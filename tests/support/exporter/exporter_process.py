"""An exporter process for tests: it starts, stops, and is asked for its metrics."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.aio import HANG_S
from tests.support.forked_python import ForkedPython
from tests.support.http import HttpAnswer, get

ROOT = Path(__file__).resolve().parents[3]
ASK_EVERY_S = 0.1


@dataclass
class ExporterRun:
    """`mledger exporter` on a metadata store, a context; its log outlives it."""

    metadata_url: str
    log_path: Path
    options: tuple[str, ...] = ()
    port: int = 0
    process: "subprocess.Popen[str] | None" = None

    def __enter__(self) -> "ExporterRun":
        command = [sys.executable, "-m", "mledger.exporter.main", "--metadata", self.metadata_url]
        command += ["--port", str(self.port), *self.options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with self.log_path.open("a") as log:
            self.process = ForkedPython(
                command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT, env=environment
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log_path.read_text()
        self.port = json.loads(line)["port"]
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> int:
        """Send SIGTERM, wait for the end, and return the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(HANG_S)

    async def metrics_when(self, holds: Callable[[dict[str, float]], bool]) -> HttpAnswer:
        """The first scrape whose samples `holds` accepts."""
        while not holds((answer := await get(self.port, "/metrics")).samples):
            await asyncio.sleep(ASK_EVERY_S)
        return answer

    async def read_rounds(self, count: int = 1) -> HttpAnswer:
        """The scrape after so many further complete rounds."""
        before = (await get(self.port, "/metrics")).samples["mledger_exporter_rounds_total"]
        return await self.metrics_when(lambda found: found["mledger_exporter_rounds_total"] >= before + count)
