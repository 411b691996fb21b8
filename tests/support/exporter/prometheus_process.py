"""A real Prometheus for tests: it scrapes one exporter every second and evaluates rules; and promtool."""

import asyncio
import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from mledger.metastore.zookeeper.launcher import free_port
from tests.support.aio import HANG_S

ASK_EVERY_S = 0.2
SOON = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}


def missing_programs() -> list[str]:
    """Those of Prometheus's programs that the machine lacks."""
    return [name for name in ("prometheus", "promtool") if shutil.which(name) is None]


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run promtool to its end."""
    command = ["promtool", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)


class PrometheusRun:
    """Prometheus as a context."""

    def __init__(self, directory: Path, rules: Path, job: str, target_port: int) -> None:
        self._directory, self._port = directory, free_port()
        config = {
            "global": SOON,
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{target_port}"]}]}],
        }
        self._config = directory / "prometheus.yaml"
        self._config.write_text(yaml.safe_dump(config))

    def __enter__(self) -> "PrometheusRun":
        command = ["prometheus", f"--config.file={self._config}", f"--storage.tsdb.path={self._directory / 'data'}"]
        command += [f"--web.listen-address=127.0.0.1:{self._port}", "--log.level=warn"]
        with (self._directory / "prometheus.log").open("a") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._directory)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(HANG_S)

    async def firing_when(self, wanted: Iterable[str]) -> list[dict[str, Any]]:
        """The alerts that fire, once all of `wanted` do."""
        expected = set(wanted)
        while True:
            alerts = await self._alerts()
            if expected <= {alert["labels"]["alertname"] for alert in alerts}:
                return alerts
            await asyncio.sleep(ASK_EVERY_S)

    async def _alerts(self) -> list[dict[str, Any]]:
        assert self._process.poll() is None, (self._directory / "prometheus.log").read_text()
        try:
            answer = await asyncio.to_thread(self._get, "/api/v1/alerts")
        except OSError:  # it does not serve yet
            return []
        return [each for each in answer["data"]["alerts"] if each["state"] == "firing"]

    def _get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=HANG_S) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
