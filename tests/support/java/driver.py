"""Java's BookKeeper and Pulsar: built by Maven from `tests/interop/pom.xml`, driven by lines of JSON.

A missing tool is a reason to skip (`missing_tools`); a failure with the tools present is an error.
`MLEDGER_PULSAR_VERSION`, `MLEDGER_BOOKKEEPER_VERSION` and `MLEDGER_NETTY_VERSION` choose other versions than pom.xml.
With another BookKeeper, but not its Pulsar, only ledgers are tested: Pulsar works with its own BookKeeper only.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2] / "interop"
VERSIONS = {
    "MLEDGER_PULSAR_VERSION": "pulsar.version",
    "MLEDGER_BOOKKEEPER_VERSION": "bookkeeper.version",
    "MLEDGER_NETTY_VERSION": "netty.version",
}
CHOSEN = {VERSIONS[name]: os.environ[name] for name in VERSIONS if os.environ.get(name)}
TARGET = PROJECT / "target" / "-".join(["other", *CHOSEN.values()]) if CHOSEN else PROJECT / "target"
LEDGERS_ONLY = "bookkeeper.version" in CHOSEN and "pulsar.version" not in CHOSEN
MAVEN_TIMEOUT_S = 840
QUICK_JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Java's options for a process that does little."""


class OriginalError(Exception):
    """Java answered with an error: its class, its message, and BookKeeper's code if it has one."""

    def __init__(self, op: str, error: dict[str, Any]) -> None:
        super().__init__(f"{op}: {error['class']}: {error['message']}")
        self.name: str = error["class"]
        self.code: int | None = error["code"]


class BuildFailed(Exception):
    """Maven could not fetch or compile the programs. The message ends with Maven's last lines."""


def missing_tools() -> list[str]:
    """The programs that running Java's side needs and that are not on PATH."""
    return [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]


def build() -> str:
    """The class path of Java's side and of our programs that drive it. Maven runs only after a change."""
    run_maven(PROJECT, TARGET, ("compile", "dependency:copy-dependencies"), CHOSEN)
    return os.pathsep.join((str(TARGET / "classes"), str(TARGET / "lib" / "*")))


def run_maven(project: Path, target: Path, goals: Sequence[str], settings: Mapping[str, str]) -> None:
    """Have Maven build `target` of the project, unless it is newer than the pom.xml and the Java sources."""
    target.mkdir(parents=True, exist_ok=True)
    with open(target / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test workers may arrive here at once
        stamp = target / "built"
        inputs = [project / "pom.xml", *(path for path in (project / "java").rglob("*") if path.is_file())]
        if not stamp.exists() or stamp.stat().st_mtime < max(path.stat().st_mtime for path in inputs):
            _maven(project, goals, {"interop.target": str(target), **settings})
            stamp.touch()


def _maven(project: Path, goals: Sequence[str], settings: Mapping[str, str]) -> None:
    command = ["mvn", "-q", "-B", *(f"-D{name}={value}" for name, value in settings.items()), *goals]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, check=False)
    if done.returncode:
        raise BuildFailed(f"mvn {' '.join(goals)} ended with {done.returncode}: {(done.stdout + done.stderr)[-4000:]}")


class Original:
    """One Java process, which logs to `log`. Calls block and are answered in order."""

    def __init__(self, class_path: str, log: Path, *, heap_mb: int = 256, fast: bool = False) -> None:
        """Start the process. `fast` is for measurements: full compilation and the parallel collector."""
        tuning = ["-XX:+UseParallelGC"] if fast else QUICK_JAVA
        with open(log, "ab") as stderr:
            self._process = subprocess.Popen(
                [
                    "java",
                    f"-Xmx{heap_mb}m",
                    "-XX:MaxDirectMemorySize=512m",
                    f"-Djava.io.tmpdir={log.parent}",  # libraries are unpacked there, and remain after a kill
                    *tuning,
                    "-Dio.netty.tryReflectionSetAccessible=true",
                    "--add-opens=java.base/java.nio=ALL-UNNAMED",
                    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
                    "-cp",
                    class_path,
                    "interop.Main",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self.log = log

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def call(self, op: str, **arguments: Any) -> dict[str, Any]:
        """One operation in Java and its result. Raises OriginalError if it fails there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the Java process ended with {self._process.wait()} in {op}: see {self.log}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise OriginalError(op, answer["error"])
        return answer

    def connect(self, zookeeper: str) -> None:
        """Connect its clients to a metadata tree."""
        self.call("ledger.connect", zookeeper=zookeeper)
        if not LEDGERS_ONLY:
            self.call("topic.connect", zookeeper=zookeeper)

    def kill(self) -> None:
        """End it by kill -9, as in a crash."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def __enter__(self) -> "Original":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
