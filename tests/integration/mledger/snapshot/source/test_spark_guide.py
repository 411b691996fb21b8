"""Runs the Python of docs/how-to/spark.md, block by block, on a cluster with every kind of node."""

import pytest

from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from tests.support.cli import answer
from tests.support.commands.documents import blocks_of
from tests.support.snapshots.exports import write_varied_cluster
from tests.support.snapshots.spark import spark

__all__ = ["spark"]

pytestmark = pytest.mark.spark

BLOCKS = blocks_of("how-to/spark.md", "python")


@pytest.fixture(scope="module")
def printed(spark, tmp_path_factory):
    """What each block prints. Names that one block defines are there for the next."""
    directory = tmp_path_factory.mktemp("spark-guide")
    with ZooKeeperServer.start(directory / "zookeeper", sync=False) as server, pytest.MonkeyPatch.context() as patch:
        url = f"{server.url}/pulsar"
        write_varied_cluster(url)
        answer("snapshot", "export", directory / "snapshots", url=url)
        said: list[list[str]] = []
        patch.setattr("builtins.print", lambda *words: said[-1].append(" ".join(map(str, words))))
        names: dict[str, object] = {}
        for block in BLOCKS:
            said.append([])
            code = (
                block.text.replace("zk://zk-1:2181,zk-2:2181,zk-3:2181", url)
                .replace("/backup/metadata", str(directory / "snapshots"))
                .replace("/backup/zookeeper", str(directory / "zookeeper" / "data"))
            )
            exec(compile(code, f"docs/how-to/spark.md:{block.line}", "exec"), names)
        yield ["\n".join(lines) for lines in said]


@pytest.mark.parametrize(
    ("number", "rows", "shown"),
    [
        (0, 1, "|namespace"),
        (1, 1, "|tenant"),
        (2, 1, "|topic"),
        (3, 1, "|namespace"),
        (4, 0, "|topic|count|"),
        (5, 1, "|waits_at_most_s|"),
        (6, 1, "|tenant|count|"),
    ],
)
def test_a_block_of_the_guide_shows_a_table(printed, number, rows, shown) -> None:
    assert shown in printed[number]
    assert sum(line.startswith("|") for line in printed[number].splitlines()) > rows


def test_the_last_block_of_the_guide_reads_without_spark(printed) -> None:
    assert len(printed) == 8
    assert "rows of ['topic', 'entries']" in printed[-1]
