"""What `pip install mledger` alone can do, and its error if an extra is missing."""

import pytest

from tests.support.cli import answer, ok

SINGLE = ("--ensemble-size", "1", "--write-quorum", "1", "--ack-quorum", "1")
LOOKING = [
    ("topics", "list"),
    ("topics", "describe", "orders"),
    ("topics", "stats-internal", "orders"),
    ("topics", "read", "orders"),
    ("cursors", "list", "orders"),
    ("cursors", "recover", "orders"),
    ("ledgers", "list"),
    ("ledgers", "check", "--topic", "orders"),
    ("bookies", "list"),
    ("bookies", "check"),
    ("metadata", "tree"),
]
NEEDS_ROCKSDB = [
    ("up", "--metadata", "zk://127.0.0.1:1"),
    ("bookie", "run", "--dir", "bookie"),
    ("metadata", "run", "--dir", "metadata"),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """The URL of a cluster with metadata in ZooKeeper, with a topic, its cursor and an entry."""
    directory = tmp_path_factory.mktemp("cluster")
    found = answer("up", "--no-broker", "--dir", directory, "--bookies", 1)["metadata"]
    ok("topics", "create", "orders", *SINGLE, url=found)
    ok("cursors", "create", "orders", "billing", *SINGLE, url=found)
    ok("topics", "produce", "orders", *SINGLE, url=found, stdin="one\n")
    yield found
    ok("down", "--dir", directory)


def test_rocksdb_is_missing(installed_alone, tmp_path) -> None:
    done = installed_alone.run(installed_alone.python, "-c", "import rocksdict", at=tmp_path)
    assert "No module named 'rocksdict'" in done.stderr


@pytest.mark.parametrize("arguments", LOOKING, ids=" ".join)
def test_a_cluster_can_be_inspected(installed_alone, url, tmp_path, arguments) -> None:
    done = installed_alone.run(installed_alone.command, *arguments, at=tmp_path, MLEDGER_METADATA=url)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_owner_publishes_and_moves_a_cursor(installed_alone, url, tmp_path) -> None:
    for arguments in (
        ("topics", "produce", "orders", "--count", "20", *SINGLE),
        ("cursors", "skip", "orders", "billing", "3", "--yes"),
    ):
        done = installed_alone.run(installed_alone.command, *arguments, at=tmp_path, MLEDGER_METADATA=url)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", NEEDS_ROCKSDB, ids=" ".join)
def test_commands_that_need_rocksdb_say_how_to_install_it_and_create_nothing(
    installed_alone, tmp_path, arguments
) -> None:
    done = installed_alone.run(installed_alone.command, *arguments, at=tmp_path)
    assert done.returncode == 1
    assert "pip install 'mledger[local]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
