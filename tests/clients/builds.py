"""How each client's driver is started. Maven and Go fetch the clients and build the drivers after a change only."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.java.driver import QUICK_JAVA, run_maven

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET, GO = HERE / "target", HERE / "go"
TOOLS = {"python": (), "java": ("java", "javac", "mvn"), "go": ("go",)}
_GO_TIMEOUT_S = 840
_QUICK_GO = ("-gcflags=all=-N -l",) if os.environ.get("MLEDGER_CI") else ()
"""Options for Go: in CI it compiles everything anew, and nothing is measured."""


class GoBuildFailed(Exception):
    """Go could not fetch or compile a program. The message ends with Go's last lines."""


def missing_tools(client: str) -> list[str]:
    """The programs that a client needs and that are not on PATH."""
    return [tool for tool in TOOLS[client] if shutil.which(tool) is None]


def driver_command(client: str) -> list[str]:
    """The command of a client's driver, which is built if necessary."""
    match client:
        case "python":
            return [sys.executable, "-m", "tests.clients.programs.python_driver"]
        case "java":
            run_maven(HERE, TARGET, ("compile", "dependency:copy-dependencies"), {})
            options = ["-Xmx256m", *QUICK_JAVA, "-XX:-UsePerfData"]
            logs = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
            path = os.pathsep.join((str(TARGET / "classes"), str(TARGET / "lib" / "*")))
            return ["java", *options, logs, "-cp", path, "clients.Driver"]
        case "go":
            return [str(go_program("driver"))]
        case _:
            raise ValueError(f"no such client: {client}")


def go_program(package: str) -> Path:
    """A program of the clients' Go module. Go compiles only after a change."""
    return build_go(GO, package, package)


def build_go(module: Path, name: str, package: str) -> Path:
    """The program `name` in the folder `package` of a Go module. Go compiles only after a change."""
    target = module / "target"
    target.mkdir(parents=True, exist_ok=True)
    program = target / name
    with open(target / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test workers may arrive here at once
        inputs = [module / "go.mod", module / "go.sum", *(module / package).glob("*.go")]
        if not program.exists() or program.stat().st_mtime < max(path.stat().st_mtime for path in inputs):
            run_go(module, "build", "-o", str(program), f"./{package}")
    return program


def run_go(module: Path, verb: str, *arguments: str) -> None:
    """Compile by `go VERB` in a module. GoBuildFailed."""
    command = ["go", verb, *_QUICK_GO, *arguments]
    environment = os.environ | {"GOGC": "800"}  # its compiler collects seldom: a sixth less work
    done = subprocess.run(
        command, cwd=module, env=environment, capture_output=True, text=True, timeout=_GO_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise GoBuildFailed(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-4000:]}")


if __name__ == "__main__":
    for name in TOOLS:
        driver_command(name)
    go_program("load")
    go_program("admin")
