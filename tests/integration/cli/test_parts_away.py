"""ZooKeeper away, all bookies away: unavailable, in one line, and nothing written."""

from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from metastore.launcher import free_port
from tests.support.cli import answer, mledger, mledger_process, ok
from tests.support.tree import tree

TOPIC = "persistent://public/default/there"


@pytest.fixture(scope="module")
def without_bookies(cluster_directory, url):
    """A cluster whose bookies died by kill -9 after a topic was written and closed; the topic's first ledger."""
    ok("topics", "create", TOPIC, url=url)
    ok("cursors", "create", TOPIC, "one", url=url)
    published = answer("topics", "produce", TOPIC, "--count", 10, url=url)
    described = answer("status", "--dir", cluster_directory)
    bookies = [psutil.Process(each["pid"]) for each in described["processes"] if each["name"] != "zookeeper"]
    for bookie in bookies:
        bookie.kill()
    psutil.wait_procs(bookies, timeout=20)
    return int(published["first"].split(":")[0])


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
def test_with_all_bookies_away_a_command_that_needs_them_is_unavailable(url, without_bookies, arguments) -> None:
    before = tree(url)
    done = mledger(*arguments, url=url, stdin="entry\n")
    assert done.code == 5, done
    assert len(done.err.splitlines()) == 1
    assert tree(url) == before


def test_with_all_bookies_away_a_ledger_cannot_be_read_but_its_record_can(url, without_bookies) -> None:
    assert mledger("ledgers", "read", without_bookies, url=url).code == 5
    assert answer("ledgers", "list", url=url) != []


def test_with_all_bookies_away_cursors_kept_in_their_records_are_still_shown(url, without_bookies) -> None:
    assert [each["backlog"] for each in answer("cursors", "list", TOPIC, url=url)] == [10]


def test_with_zookeeper_away_every_command_is_unavailable_within_its_time_out() -> None:
    url = f"zk://127.0.0.1:{free_port()}"
    commands = (("topics", "list"), ("topics", "produce", TOPIC), ("bookies", "list"), ("metadata", "get", "/"))
    with ThreadPoolExecutor() as pool:
        for done in pool.map(lambda arguments: mledger_process(*arguments, url=url), commands):
            assert done.code == 5
            assert len(done.err.splitlines()) == 1
            assert url.removeprefix("zk://") in done.err
