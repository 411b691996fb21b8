"""A Docker engine, the images, and the compose files. Starts an engine where the machine has none."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.aio import HANG_S

ROOT = Path(__file__).parents[3]
ENGINE = ROOT / "tools" / "containers" / "engine"
IMAGES = ROOT / "tools" / "containers" / "images"
IMAGE = "mledger"
BUILD_S = 1500.0


class NoEngine(Exception):
    """No Docker engine answers and none can be started here. The message says why."""


def run(*command: str | Path, timeout: float = HANG_S, **environment: str) -> str:
    """Run a command in the project's directory and return its output. AssertionError shows all of it."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def succeeds(*command: str) -> bool:
    """Whether a command exists and exits with 0."""
    try:
        return subprocess.run(command, capture_output=True, timeout=HANG_S).returncode == 0
    except FileNotFoundError:
        return False


@contextmanager
def engine() -> Iterator[None]:
    """Set DOCKER_HOST to an engine that answers: the machine's own, or one started for this test run."""
    if shutil.which("docker") is None:
        raise NoEngine("no docker command: install Docker (Debian: apt-get install docker.io)")
    if succeeds("docker", "info", "--format", "{{.ServerVersion}}"):
        yield
        return
    directory = tempfile.mkdtemp(prefix="mledger-engine-")
    before = os.environ.get("DOCKER_HOST")
    started = subprocess.run([ENGINE, "up", directory], capture_output=True, text=True, timeout=HANG_S)
    try:
        if started.returncode:
            raise NoEngine(f"no Docker engine answers, and {started.stderr.strip()}")
        os.environ["DOCKER_HOST"] = started.stdout.strip()
        yield
    finally:
        subprocess.run([ENGINE, "down", directory], capture_output=True, timeout=HANG_S, check=True)
        os.environ.pop("DOCKER_HOST", None)
        if before is not None:
            os.environ["DOCKER_HOST"] = before


def build_images() -> None:
    """Fetch or build the base images, and build the image of this checkout."""
    run(IMAGES, timeout=BUILD_S)


def compose_command() -> list[str]:
    """`docker compose`, or the older separate program. Raises NoEngine if neither exists."""
    if succeeds("docker", "compose", "version"):
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    raise NoEngine("no docker compose: install its plugin, or docker-compose")


@dataclass
class Project:
    """The services of the compose files on 127.0.0.1, on ports of their own."""

    name: str
    ports: dict[str, str]
    compose: list[str] = field(default_factory=compose_command)

    @property
    def environment(self) -> dict[str, str]:
        """Where `compose` finds its files, its project and the ports, and how long it waits for the engine."""
        files = f"{ROOT / 'compose.yaml'}:{ROOT / 'compose.loopback.yaml'}"
        return {"COMPOSE_FILE": files, "COMPOSE_PROJECT_NAME": self.name, "COMPOSE_HTTP_TIMEOUT": "900", **self.ports}

    def __call__(self, *arguments: str, timeout: float = HANG_S) -> str:
        """Run a compose command and return its output."""
        return run(*self.compose, *arguments, timeout=timeout, **self.environment)

    def mledger(self, *arguments: str) -> str:
        """Run the `mledger` command in a container."""
        return self("run", "--rm", "cli", *arguments)

    def states(self) -> dict[str, str]:
        """The health of each server's container."""
        listed = run(
            *("docker", "ps", "--filter", f"label=com.docker.compose.project={self.name}"),
            *("--format", '{{.Label "com.docker.compose.service"}}\t{{.Status}}'),
        )
        return dict(line.split("\t", 1) for line in listed.splitlines())
