"""A snapshot written during transactions gives, together with the log, exactly the server's tree."""

import random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from mledger.snapshot import DataDirectory, ExactTree, LogDoesNotFit, MissingLog, ZxidNotCovered
from mledger.snapshot.zookeeper_files.snapshot_file import snapshot_zxid
from tests.support.zookeeper.zookeeper_history import MemoryFiles, ZooKeeperHistory

SEEDS = st.integers(0, 1 << 32)
PZXID = 9


def history(seed, **options):
    return ZooKeeperHistory(random.Random(seed), **options)


def read(files, **at):
    plan = DataDirectory(files).plan(**at)
    exact = ExactTree(files, plan)
    nodes = {node.path: tuple(node[1:]) for node in exact.nodes()}
    return plan, nodes, exact.summary


def without(files, *names):
    return MemoryFiles({name: data for name, data in files.contents.items() if name not in names})


def masked(nodes):
    """Without the zxid of the last change of children."""
    return {path: fields[:PZXID] + fields[PZXID + 1 :] for path, fields in nodes.items()}


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.booleans())
def test_every_zxid_after_the_end_of_its_writing_is_exact(seed, digests):
    server = history(seed, digests=digests)
    server.steps(25)
    name, settled = server.snapshot(most_between=8, with_digest=digests)
    server.steps(8)
    files = without(server.files(), "snapshot.0")
    for zxid, state in server.states.items():
        if zxid >= settled:
            plan, nodes, summary = read(files, zxid=zxid)
            assert plan.snapshot == name
            assert nodes == state
            assert summary.sessions == server.sessions[zxid]
            assert bool(summary.digests_compared) == digests


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_a_transaction_under_way_at_the_end_of_its_writing_is_reported_or_replayed(seed):
    server = history(seed)
    server.steps(10)
    name, settled = server.snapshot(most_between=5, behind=1)
    server.steps(4)
    files, reported = without(server.files(), "snapshot.0"), None
    for zxid, state in server.states.items():
        if zxid > settled:
            assert read(files, zxid=zxid)[1] == state
    try:
        assert read(files, zxid=settled)[1] == server.states[settled]
    except LogDoesNotFit as error:
        reported = error
    if reported is not None:
        assert reported.file == name
        assert "the next transaction had begun" in str(reported)
    event("reported" if reported else "replayed")


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_sessions_closed_without_a_list_of_nodes_remove_those_they_own(seed):
    """Before 3.6. No file tells which parent lost a node deleted before it was copied, so not all pzxids match."""
    server = history(seed, digests=False, lists=False)
    server.steps(25)
    _, settled = server.snapshot(most_between=5, with_digest=False)
    server.steps(8)
    files = without(server.files(), "snapshot.0")
    for zxid, state in server.states.items():
        if zxid >= settled:
            assert masked(read(files, zxid=zxid)[1]) == masked(state)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_a_zxid_within_the_writing_is_exact_from_an_older_snapshot(seed):
    server = history(seed)
    server.steps(10)
    server.snapshot()
    server.steps(5)
    server.snapshot()
    for zxid, state in server.states.items():
        assert read(server.files(), zxid=zxid)[1] == state


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_a_time_gives_the_last_transaction_before_the_first_later_one(seed):
    server = history(seed)
    server.steps(20)
    server.snapshot()
    files = server.files()
    for time in sorted(set(server.times.values())):
        zxid = max(zxid for zxid, made in server.times.items() if made <= time)
        plan, nodes, _ = read(files, time_ms=time)
        assert (plan.zxid, plan.time_ms) == (zxid, time)
        assert nodes == server.states[zxid]


def busy_server(*, parts=None):
    """A server whose only old snapshot is fuzzy; its name and settled zxid."""
    server = history(7, digests=False)
    server.steps(20)
    name, settled = server.snapshot(most_between=4, **(parts or {}))
    assert snapshot_zxid(name) < settled
    server.steps(10)
    return server, name, settled


def test_a_zxid_within_the_writing_is_refused_without_an_older_snapshot():
    server, name, settled = busy_server()
    with pytest.raises(
        ZxidNotCovered, match=f"{name} was still being written .* its earliest exact point is zxid {settled:#x}"
    ):
        read(without(server.files(), "snapshot.0"), zxid=settled - 1)


def test_a_snapshot_without_its_time_of_writing_serves_the_newest_point():
    server, name, _ = busy_server(parts={"with_digest": False, "with_last_zxid": False})
    plan, nodes, _ = read(server.files())
    assert (plan.snapshot, plan.settled) == (name, None)
    assert nodes == server.states[server.tree.zxid]


def test_a_snapshot_without_its_time_of_writing_is_bounded_by_the_next():
    server, name, _ = busy_server(parts={"with_digest": False, "with_last_zxid": False})
    server.snapshot(with_digest=False, with_last_zxid=False)
    following = max(server.snapshots, key=snapshot_zxid)
    bound = snapshot_zxid(following)
    files = without(server.files(), following)
    files.contents[following] = b"not read"
    assert read(files, zxid=bound - 1)[0].snapshot == "snapshot.0"
    files = server.files()
    assert DataDirectory(files, without=[following]).plan(zxid=bound).snapshot == name


def test_a_fuzzy_snapshot_without_the_log_of_its_writing_is_refused():
    server, name, settled = busy_server()
    files = server.files()
    files.contents = {name: files.contents[name]}
    with pytest.raises(MissingLog, match=f"needs the logs up to zxid {settled:#x}"):
        read(files)


def test_a_snapshot_of_another_history_is_refused():
    one, other = history(1), history(2)
    one.steps(30)
    other.steps(20)
    other.snapshot(most_between=0)
    files = one.files()
    name = max(other.snapshots, key=snapshot_zxid)
    files.contents[name] = other.snapshots[name]
    with pytest.raises((LogDoesNotFit, MissingLog)):
        read(files)


def test_the_comparison_of_digests_can_be_switched_off():
    server = history(3)
    server.steps(5)
    server.tree.nodes["/"] = server.tree.nodes["/"].__class__(b"drifted", server.tree.nodes["/"].acl)
    server.steps(5)
    files = server.files()
    plan = DataDirectory(files).plan()
    with pytest.raises(LogDoesNotFit, match="ZooKeeper wrote"):
        list(ExactTree(files, plan).nodes())
    exact = ExactTree(files, plan, verify_digests=False)
    assert list(exact.nodes())
    assert exact.summary.digests_compared == 0
