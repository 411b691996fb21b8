"""Without ZooKeeper, or without bookies, commands report in one line that it is unavailable, and write nothing."""

from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

import mledger as public
from mledger.metastore.zookeeper.launcher import free_port
from tests.support.aio import HANG_S, run
from tests.support.cli import answer, mledger, mledger_process, ok
from tests.support.metadata.tree import tree
from tests.support.topics import CONFIG, fill, ledgers_naming, managed_ledger_of

TOPIC = "persistent://public/default/there"
CRASHED = "persistent://public/default/crashed"


@pytest.fixture(scope="module")
def without_bookies(cluster_directory, url):
    """A cluster whose bookies died by kill -9 after a topic was written and closed; the topic's first ledger."""
    ok("topics", "create", TOPIC, url=url)
    ok("cursors", "create", TOPIC, "one", url=url)
    published = answer("topics", "produce", TOPIC, "--count", 10, url=url)
    run(_crash(url))
    described = answer("status", "--dir", cluster_directory)
    bookies = [psutil.Process(each["pid"]) for each in described["processes"] if each["name"] != "zookeeper"]
    for bookie in bookies:
        bookie.kill()
    psutil.wait_procs(bookies, timeout=HANG_S)
    return int(published["first"].split(":")[0])


async def _crash(url: str) -> None:
    """A topic whose last ledger is open, and whose cursor has its state in a cursor ledger."""
    async with public.open_cluster(url, config=CONFIG) as cluster:
        topic = await cluster.create_topic(CRASHED)
        cursor = await topic.open_cursor("one")
        positions = await fill(topic, 5)
        await cursor.acknowledge([positions[2]])
        await topic.abandon()


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "produce", TOPIC),
        ("topics", "create", "persistent://public/default/new"),
        ("topics", "read", TOPIC),
        ("cursors", "recover", TOPIC, "--apply"),
        ("cursors", "create", TOPIC, "two"),
    ],
    ids=" ".join,
)
def test_without_bookies_a_command_that_needs_them_is_unavailable(url, without_bookies, arguments) -> None:
    before = tree(url)
    done = mledger(*arguments, url=url, stdin="entry\n")
    assert done.code == 5, done
    assert len(done.err.splitlines()) == 1
    assert tree(url) == before


def test_without_bookies_a_ledger_cannot_be_read_but_its_record_can(url, without_bookies) -> None:
    assert mledger("ledgers", "read", without_bookies, url=url).code == 5
    assert answer("ledgers", "list", url=url) != []


def test_without_bookies_cursors_kept_in_their_records_are_still_shown(url, without_bookies) -> None:
    assert [each["backlog"] for each in answer("cursors", "list", TOPIC, url=url)] == [10]


def test_without_bookies_a_topic_is_deleted_and_unknown_losses_are_named(url, without_bookies, tmp_path) -> None:
    undo_file = tmp_path / "undo.json"
    planned = answer("topics", "delete", CRASHED, "--dry-run", url=url)
    assert [line for line in planned["lost"] if "with an unknown number of entries" in line]
    assert [line for line in planned["lost"] if "cursor" in line]
    ok("topics", "delete", CRASHED, "--yes", "--undo-file", undo_file, url=url)
    assert mledger("topics", "describe", CRASHED, url=url).code == 3
    assert run(ledgers_naming(url, managed_ledger_of(CRASHED))) == set()


def test_without_zookeeper_every_command_is_unavailable_within_its_time_out() -> None:
    url = f"zk://127.0.0.1:{free_port()}"
    commands = (("topics", "list"), ("topics", "produce", TOPIC), ("bookies", "list"), ("metadata", "get", "/"))
    with ThreadPoolExecutor() as pool:
        for done in pool.map(lambda arguments: mledger_process(*arguments, url=url), commands):
            assert done.code == 5
            assert len(done.err.splitlines()) == 1
            assert url.removeprefix("zk://") in done.err
