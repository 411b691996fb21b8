"""The originals and our own parts, once a worker: a tree that we initialised, with our bookies or with theirs."""

from dataclasses import dataclass

import pytest

from metastore.layout import initialize
from metastore.url import open_store
from tests.support.aio import run
from tests.support.originals import Original, build, missing_tools

BOOKIES = 4


@dataclass(frozen=True)
class Tree:
    """A cluster's metadata: `url` for ours, `zookeeper` for the originals."""

    url: str
    zookeeper: str


async def _initialize(url):
    async with await open_store(url) as store:
        await initialize(store)


@pytest.fixture(scope="session")
def new_tree(shared_zookeeper, _new_chroot):
    """Makes a chroot that our own code has initialised."""

    def create() -> Tree:
        chroot = _new_chroot()
        tree = Tree(shared_zookeeper.url + chroot, shared_zookeeper.connect_string + chroot)
        run(_initialize(tree.url))
        return tree

    return create


@pytest.fixture(scope="session")
def class_path():
    """Maven's work; where a tool is missing the tests are skipped by name."""
    if missing := missing_tools():
        pytest.skip(f"the originals need {', '.join(missing)}: install maven and a JDK of 17 or later")
    return build()


@pytest.fixture(scope="session")
def start_original(class_path, tmp_path_factory):
    """Starts Java processes; all end with the session."""
    started = []

    def start() -> Original:
        original = Original(class_path, tmp_path_factory.mktemp("original") / "log")
        started.append(original)
        return original

    yield start
    for original in started:
        original.kill()


@pytest.fixture(scope="session")
def java_bookie_process(start_original):
    """The process that the original bookies live in."""
    return start_original()


@dataclass(frozen=True)
class JavaBookies:
    """Original bookies in a tree of ours."""

    tree: Tree
    process: Original
    ids: list[str]
    directory: object

    def stop(self, bookie_id: str) -> None:
        """End one; its connections close and its registration goes."""
        self.process.call("bookies.stop", bookie_id=bookie_id)

    def start(self, number: int) -> str:
        """Start one on its directory, at the port that it had."""
        port = {"port": int(self.ids[number].rpartition(":")[2])} if number < len(self.ids) else {}
        answer = self.process.call(
            "bookies.start", zookeeper=self.tree.zookeeper, dir=str(self.directory / f"bookie-{number}"), **port
        )
        return answer["bookie_id"]


@pytest.fixture(scope="session")
def java_bookies(java_bookie_process, new_tree, tmp_path_factory):
    """Four original bookies."""
    bookies = JavaBookies(new_tree(), java_bookie_process, [], tmp_path_factory.mktemp("java-bookies"))
    for number in range(BOOKIES):
        bookies.ids.append(bookies.start(number))
    return bookies


@pytest.fixture(scope="session")
def java_on_java(start_original, java_bookies):
    """The original clients on the original bookies."""
    original = start_original()
    original.call("ledger.connect", zookeeper=java_bookies.tree.zookeeper)
    original.call("topic.connect", zookeeper=java_bookies.tree.zookeeper)
    return original
