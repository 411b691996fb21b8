"""A round over the nodes that Java's brokers and bookies left counts what Java reads there."""

import pytest

from mledger.config import ManagedLedgerConfig
from mledger.exporter.cluster_reader import ClusterReader
from mledger.metastore.memory.store import MemoryStore
from mledger.metastore.records.paths import LEDGERS
from mledger.snapshot.tables.node_kinds import NodeKind, kind_of
from tests.support.aio import run
from tests.support.recordings import golden

FILES = golden.files("znodes/*.json") + golden.files("behaviours/*.json")


def last_nodes(file):
    """The nodes of all dumps of a file, each as it was last."""
    return {node.path: node for node in golden.nodes(file)}


def of_kind(file, kind):
    found = last_nodes(file).values()
    return [node for node in found if kind_of(node.path, LEDGERS) is kind and node.decoded is not None]


def figures_of(file):
    async def main():
        store = MemoryStore()
        await golden.load_nodes(store, last_nodes(file).values())
        return await ClusterReader(ManagedLedgerConfig(), worst=3).read(store)

    return run(main())


def is_cluster(file):
    return any(path.startswith(("/managed-ledgers/", "/ledgers/")) for path in last_nodes(file))


@pytest.mark.parametrize("file", [file for file in FILES if is_cluster(file)])
def test_topics_cursors_and_marks_are_counted_as_java_wrote_them(file):
    figures = figures_of(file)
    topics = of_kind(file, NodeKind.TOPIC)
    infos = [info for node in topics for info in node.decoded["ledgerInfo"]]
    sums = figures.namespaces.values()
    assert sum(each.topics for each in sums) == len(topics)
    assert sum(each.ledgers for each in sums) == len(infos)
    assert sum(each.entries for each in sums) == sum(info.get("entries", 0) for info in infos)
    states = {"znode": 0, "snapshot": 0}
    for node in of_kind(file, NodeKind.CURSOR):
        states["znode" if node.decoded["cursorsLedgerId"] == -1 else "snapshot"] += 1
    assert {state: sum(each.by_state[state].cursors for each in sums) for state in states} == states
    marks = [path for path in last_nodes(file) if kind_of(path, LEDGERS) is NodeKind.UNDERREPLICATED]
    assert figures.marks.ledgers == len(marks)
    assert figures.marks.unreadable == 0


def test_the_recordings_have_topics_and_cursors():
    assert sum(len(of_kind(file, NodeKind.CURSOR)) for file in FILES) > 50
