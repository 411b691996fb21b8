"""The engine, the images, and a cluster of containers, once for the suite."""

import os

os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")  # testcontainers reads it on import

import contextlib
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import yaml
from testcontainers.core.container import DockerContainer

from mledger.metastore.zookeeper.launcher import four_letter_word
from tests.support.aio import HANG_S
from tests.support.cli import mledger_process
from tests.support.environments.containers import IMAGE, ROOT, NoEngine, Project, build_images, engine, run
from tests.support.ports import free_late_port

ZOOKEEPERS = 3
BOOKIES = 4
PATIENCE = {"timeout": HANG_S}
ZOOKEEPER_IMAGE = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["zookeeper-1"]["image"]


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Check every 50 ms. TimeoutError names what did not happen."""
    deadline = time.monotonic() + HANG_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {HANG_S:g} s")
        time.sleep(0.05)


@pytest.fixture(scope="session")
def images() -> Iterator[None]:
    """An engine that answers, with the images of this checkout. Without one the tests are skipped by name."""
    try:
        with engine():
            build_images()
            yield
    except NoEngine as reason:
        pytest.skip(f"containers: {reason}")


@pytest.fixture
def project(images: None) -> Iterator[Project]:
    """The services of the compose files. They and their volumes are removed at the end."""
    names = [f"ZOOKEEPER_{n}_{kind}" for n in (1, 2, 3) for kind in ("PORT", "PEER_PORT", "ELECTION_PORT")]
    names += [f"BOOKIE_{n}_{kind}" for n in range(1, BOOKIES + 1) for kind in ("PORT", "METRICS_PORT")]
    project = Project(f"mledger-{uuid.uuid4().hex[:8]}", {name: str(free_late_port()) for name in names})
    yield project
    project("down", "--volumes")


@dataclass(frozen=True)
class ContainerCluster:
    """Three ZooKeeper nodes and four bookies, each in a container on the host's loopback."""

    zookeepers: list[DockerContainer]
    bookies: dict[str, DockerContainer]
    url: str

    def kill(self, container: DockerContainer) -> None:
        """End a container by SIGKILL."""
        container.get_wrapped_container().kill()

    def start(self, *containers: DockerContainer) -> None:
        """Start killed containers on their data, and wait until all serve."""
        for each in containers:
            each.get_wrapped_container().start()
        self.wait()

    def leader(self) -> DockerContainer:
        """The ZooKeeper node that leads."""
        modes: list[str] = []

        def found() -> bool:
            modes[:] = map(_mode, self._addresses())
            return "leader" in modes

        wait_until(found, "ZooKeeper's leader")
        return self.zookeepers[modes.index("leader")]

    def wait(self) -> None:
        """Wait until every node serves, and every bookie answers and is registered."""
        wait_until(lambda: sorted(map(_mode, self._addresses())) == ["follower", "follower", "leader"], "ZooKeeper")
        for bookie_id in self.bookies:
            wait_until(lambda where=bookie_id: _answers(where), f"bookie {bookie_id}")
        wait_until(lambda: self.bookies.keys() <= self._registered(), "the bookies' registration")

    def mledger(self, *arguments: str) -> str:
        """Run the command in a container of its own."""
        return run(
            *("docker", "run", "--rm", "--network", "host", "--env", f"MLEDGER_METADATA={self.url}", IMAGE),
            *arguments,
        )

    def _registered(self) -> set[str]:
        if not self.bookies:
            return set()
        listed = mledger_process("bookies", "list", "--output", "json", url=self.url)
        return {each["bookie_id"] for each in listed.json if each["state"] == "writable"} if listed.code == 0 else set()

    def _addresses(self) -> list[str]:
        return self.url.removeprefix("zk://").split(",")


def _mode(address: str) -> str:
    """`leader`, `follower`, or nothing while it does not serve."""
    host, port = address.split(":")
    with contextlib.suppress(OSError):
        for line in four_letter_word("srvr", host, int(port), 1.0).splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
    return ""


def _answers(bookie_id: str) -> bool:
    host, port = bookie_id.split(":")
    try:
        socket.create_connection((host, int(port)), 1.0).close()
    except OSError:
        return False
    return True


def _zookeeper(number: int, servers: str) -> DockerContainer:
    container = DockerContainer(ZOOKEEPER_IMAGE, docker_client_kw=PATIENCE).with_kwargs(network_mode="host")
    settings = {"ZOO_MY_ID": str(number), "ZOO_SERVERS": servers, "ZOO_4LW_COMMANDS_WHITELIST": "srvr"}
    for key, value in settings.items():
        container = container.with_env(key, value)
    return container


def _bookie(url: str, port: int) -> DockerContainer:
    command = ["-m", "mledger.bookie.server", "--metadata", url, "--dir", "/data", "--port", str(port)]
    return (
        DockerContainer(IMAGE, docker_client_kw=PATIENCE)
        .with_kwargs(network_mode="host", entrypoint="python")
        .with_command(command)
    )


@pytest.fixture(scope="session")
def cluster(images: None) -> Iterator[ContainerCluster]:
    """A cluster of containers."""
    clients = [free_late_port() for _ in range(ZOOKEEPERS)]
    servers = " ".join(
        f"server.{number}=127.0.0.1:{free_late_port()}:{free_late_port()};127.0.0.1:{client}"
        for number, client in enumerate(clients, 1)
    )
    url = "zk://" + ",".join(f"127.0.0.1:{port}" for port in clients)
    ports = [free_late_port() for _ in range(BOOKIES)]
    with contextlib.ExitStack() as stack:
        zookeepers = [stack.enter_context(_zookeeper(number, servers)) for number in range(1, ZOOKEEPERS + 1)]
        cluster = ContainerCluster(zookeepers, {}, url)
        cluster.wait()
        cluster.mledger("metadata", "init")
        cluster.bookies.update((f"127.0.0.1:{port}", stack.enter_context(_bookie(url, port))) for port in ports)
        cluster.wait()
        yield cluster
