"""Java's programs and ours, once per worker: a tree that we initialised, with our bookies or with Java's."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mledger.metastore.zookeeper.launcher import ZooKeeperServer, free_port
from tests.support.bookies.processes import SMALL, BookieProcesses, initialize_cluster
from tests.support.java import pulsar_broker
from tests.support.java.driver import Original, build, missing_tools
from tests.support.java.pulsar_cluster import PulsarCluster, pulsar_cluster

BOOKIES = 4

pytest.register_assert_rewrite("tests.interop.rows_of_bookkeeper_shell")


@dataclass(frozen=True)
class MetadataTree:
    """A cluster's metadata: `url` for ours, `zookeeper` for Java's."""

    url: str
    zookeeper: str


@pytest.fixture(scope="package")
def new_tree(shared_zookeeper, _new_chroot):
    """Makes a chroot that our code has initialised."""

    def create() -> MetadataTree:
        chroot = _new_chroot()
        tree = MetadataTree(shared_zookeeper.url + chroot, shared_zookeeper.connect_string + chroot)
        initialize_cluster(tree.url)
        return tree

    return create


@pytest.fixture(scope="package")
def class_path():
    """Maven's build. If a tool is missing the tests are skipped by name."""
    _need_tools()
    return build()


@pytest.fixture(scope="package")
def broker_class_path():
    """Maven's build for a broker. If a tool is missing the tests are skipped by name."""
    _need_tools()
    return pulsar_broker.build()


def _need_tools() -> None:
    if missing := missing_tools():
        pytest.skip(f"the originals need {', '.join(missing)}: install maven and a JDK of 17 or later")


@pytest.fixture(scope="package")
def start_original(class_path, tmp_path_factory):
    """Starts Java processes. All end with the tests of this folder."""
    started = []

    def start() -> Original:
        original = Original(class_path, tmp_path_factory.mktemp("original") / "log")
        started.append(original)
        return original

    yield start
    for original in started:
        original.kill()


@pytest.fixture(scope="package")
def java_bookie_process(start_original):
    """The process with Java's bookies."""
    return start_original()


@dataclass(frozen=True)
class JavaBookies:
    """Java's bookies in a tree of ours."""

    tree: MetadataTree
    process: Original
    ids: list[str]
    directory: Path

    def stop(self, bookie_id: str) -> None:
        """End one. Its connections close and its registration vanishes."""
        self.process.call("bookies.stop", bookie_id=bookie_id)

    def start(self, bookie_id: str) -> None:
        """Start a stopped one again on its directory."""
        assert self._start(self.ids.index(bookie_id), port=int(bookie_id.rpartition(":")[2])) == bookie_id

    def _start(self, number: int, port: int = 0) -> str:
        directory = str(self.directory / f"bookie-{number}")
        port = port or free_port()
        answer = self.process.call("bookies.start", zookeeper=self.tree.zookeeper, dir=directory, port=port)
        return answer["bookie_id"]


@pytest.fixture(scope="package")
def java_bookies(java_bookie_process, new_tree, tmp_path_factory):
    """Four of Java's bookies."""
    bookies = JavaBookies(new_tree(), java_bookie_process, [], tmp_path_factory.mktemp("java-bookies"))
    for number in range(BOOKIES):
        bookies.ids.append(bookies._start(number))
    return bookies


@pytest.fixture(scope="package")
def java_on_java(start_original, java_bookies):
    """Java's clients on Java's bookies."""
    original = start_original()
    original.connect(java_bookies.tree.zookeeper)
    return original


class OurBookies:
    """Processes of our bookies in a tree of ours."""

    def __init__(self, tree: MetadataTree, processes: BookieProcesses) -> None:
        self.tree = tree
        self._processes = processes

    @property
    def ids(self) -> list[str]:
        """All, running or not."""
        return [bookie.bookie_id for bookie in self._processes]

    def stop(self, bookie_id: str) -> None:
        """End one by kill -9."""
        self._processes.kill(self.ids.index(bookie_id))

    def start(self, bookie_id: str) -> None:
        """Start a stopped one again on its directory."""
        self._processes.restart(self.ids.index(bookie_id))


@pytest.fixture(scope="package")
def our_bookies(new_tree, tmp_path_factory):
    """Four of our bookies."""
    tree = new_tree()
    processes = BookieProcesses(tree.url, tmp_path_factory.mktemp("our-bookies"))
    processes.start(BOOKIES)
    yield OurBookies(tree, processes)
    processes.close()


@pytest.fixture(scope="package")
def java_on_ours(start_original, our_bookies):
    """Java's clients on our bookies."""
    original = start_original()
    original.connect(our_bookies.tree.zookeeper)
    return original


def start_our_bookies(
    directory: Path, count: int = BOOKIES, arguments: tuple[str, ...] = SMALL
) -> Callable[[ZooKeeperServer], BookieProcesses]:
    """Starts bookies of ours in a tree that Pulsar initialised, or that nobody has."""

    def start(zookeeper: ZooKeeperServer) -> BookieProcesses:
        processes = BookieProcesses(zookeeper.url, directory, arguments)
        processes.start(count)
        return processes

    return start


@pytest.fixture(scope="package")
def pulsar(broker_class_path, tmp_path_factory) -> Iterator[PulsarCluster]:
    """A real broker on four bookies of ours, for tests that leave both running and use topics of their own."""
    directory = tmp_path_factory.mktemp("pulsar")
    with pulsar_cluster(broker_class_path, directory, start_our_bookies(directory / "bookies")) as cluster:
        yield cluster


@dataclass(frozen=True)
class Side:
    """Bookies of one make, with Java's clients connected to them."""

    bookies: OurBookies | JavaBookies
    java: Original

    @property
    def url(self) -> str:
        """The tree, for our client."""
        return self.bookies.tree.url


@pytest.fixture(params=["our bookies", "original bookies"])
def side(request):
    """Each make of bookies in turn."""
    ours = request.param == "our bookies"
    bookies = request.getfixturevalue("our_bookies" if ours else "java_bookies")
    return Side(bookies, request.getfixturevalue("java_on_ours" if ours else "java_on_java"))
