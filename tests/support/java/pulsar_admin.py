"""The original pulsar-admin: Maven fetches its jars, and one process runs command after command.

`tests/interop/pulsar_admin/pom.xml` names the version.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.java.driver import PROJECT, QUICK_JAVA, run_maven

ADMIN_PROJECT = PROJECT / "pulsar_admin"
TARGET = ADMIN_PROJECT / "target"


def build() -> str:
    """The class path of pulsar-admin and of our program that runs it. Maven runs only after a change."""
    run_maven(ADMIN_PROJECT, TARGET, ("compile", "dependency:copy-dependencies"), {})
    return os.pathsep.join((str(TARGET / "classes"), str(TARGET / "lib" / "*")))


@dataclass(frozen=True)
class Said:
    """What a command printed, and whether its exit code was 0."""

    success: bool
    out: str
    err: str


class PulsarAdmin:
    """A process that runs commands of pulsar-admin one by one, in `directory`."""

    def __init__(self, class_path: str, directory: Path) -> None:
        self._process = subprocess.Popen(
            ["java", "-Xmx256m", *QUICK_JAVA, "-cp", class_path, "interop.Admin"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=directory,
        )

    def run(self, url: str, *arguments: str) -> Said:
        """Run one command at the broker with this URL."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"url": url, "arguments": arguments}) + "\n")
        self._process.stdin.flush()
        return Said(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()
