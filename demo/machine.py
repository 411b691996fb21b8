"""The demo's cluster, run as an operator would with the `mledger` command; and the faults that the demo causes."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from demo.directory import empty


class DemoFailed(Exception):
    """A step of the demo did not work."""


@dataclass(frozen=True, slots=True)
class DemoBookie:
    """A bookie process."""

    name: str
    address: str
    pid: int


class DemoCluster:
    """A cluster of one ZooKeeper and four bookies in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = ""

    def start(self) -> list[dict[str, Any]]:
        """Start on the demo's directory without what an earlier run left; returns the processes. DirectoryNotFree."""
        if (self.directory / "cluster.json").exists():
            self._run("down", "--dir", str(self.directory))
        empty(self.directory)
        result = self.ask("up", "--no-broker", "--dir", str(self.directory), "--bookies", "4")
        self.url = result["metadata"]
        processes: list[dict[str, Any]] = result["processes"]
        return processes

    def stop(self) -> None:
        """Stop the processes; the data stays."""
        self._run("down", "--dir", str(self.directory))

    def ask(self, *arguments: str) -> Any:
        """The result of `mledger …`, from its JSON."""
        return json.loads(self._run(*arguments, "--output", "json"))

    def show(self, *arguments: str) -> None:
        """Let `mledger …` print its result."""
        subprocess.run(self._command(arguments), env=self._environment(), check=True)

    def writing_bookie(self, topic: str) -> DemoBookie:
        """A bookie of the ensemble that the topic's current ledger is written to."""
        ledger_id = self.ask("topics", "describe", topic)["ledgers"][-1]["ledger_id"]
        ensemble = self.ask("ledgers", "describe", str(ledger_id))["ensembles"][-1]["bookies"]
        processes = self.ask("status", "--dir", str(self.directory))["processes"]
        found = next(each for each in processes if each["address"] in ensemble)
        return DemoBookie(found["name"], found["address"], found["pid"])

    def destroy_cursor_ledger(self, topic: str, cursor: str) -> int:
        """Delete the metadata of the cursor's ledger, as a faulty clean-up would; returns its id."""
        ledger_id: int = self.ask("cursors", "describe", topic, cursor)["cursor_ledger"]
        digits = f"{ledger_id:010}"
        zookeeper = KazooClient(self.url.removeprefix("zk://"))
        zookeeper.start()
        try:
            zookeeper.delete(f"/ledgers/{digits[:2]}/{digits[2:6]}/L{digits[6:]}")
        finally:
            zookeeper.stop()
            zookeeper.close()
        return ledger_id

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(self._command(arguments), env=self._environment(), capture_output=True, text=True)
        if done.returncode != 0:
            raise DemoFailed(f"mledger {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "mledger.cli.main", *arguments]

    def _environment(self) -> dict[str, str]:
        return os.environ | ({"MLEDGER_METADATA": self.url} if self.url else {})


def kill(pid: int) -> None:
    """Kill a process without warning."""
    os.kill(pid, signal.SIGKILL)
