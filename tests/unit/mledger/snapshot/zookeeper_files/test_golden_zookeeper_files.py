"""ZooKeeper's own files, plain, gzip and snappy: every point, transaction and digest as Java has it."""

import itertools
import re

import pytest

from mledger.snapshot import Acl, DataDirectory, ExactTree, LocalFiles
from mledger.snapshot.zookeeper_files.jute import (
    CONTAINER_OWNER,
    OPEN_ACL,
    CheckVersion,
    CloseSession,
    CreateNode,
    CreateSession,
    DeleteNode,
    Failed,
    Multi,
    OpCode,
    SetAcl,
    SetData,
    TransactionDigest,
    ttl_of,
)
from mledger.snapshot.zookeeper_files.snapshot_file import SnapshotFile, snapshot_zxid
from mledger.snapshot.zookeeper_files.transaction_log import LogFile, log_zxid, read_chain
from mledger.snapshot.zookeeper_files.trees.file_selection import choose_logs
from mledger.snapshot.zookeeper_files.trees.replay import DataTree
from mledger.snapshot.zookeeper_files.trees.tree_digest import TreeDigest
from tests.support.recordings import golden

CASES = golden.files("zookeeper-files/data-*.json")
RAW_FILES = golden.files("zookeeper-files/*/version-2/*")
KINDS = {
    **dict.fromkeys((OpCode.CREATE, OpCode.CREATE2), "CreateTxn"),
    OpCode.CREATE_TTL: "CreateTTLTxn",
    OpCode.CREATE_CONTAINER: "CreateContainerTxn",
    OpCode.DELETE: "DeleteTxn",
    OpCode.SET_DATA: "SetDataTxn",
    OpCode.SET_ACL: "SetACLTxn",
    OpCode.CHECK: "CheckVersionTxn",
    OpCode.MULTI: "MultiTxn",
    OpCode.ERROR: "ErrorTxn",
    OpCode.CREATE_SESSION: "CreateSessionTxn",
    OpCode.CLOSE_SESSION: "CloseSessionTxn",
}


def files_of(case):
    return LocalFiles(str(golden.ROOT / case.removesuffix(".json")))


def signed(text):
    value = int(text, 16)
    return value - (1 << 64) if value >> 63 else value


def data_of(record):
    return None if record["data_hex"] is None else bytes.fromhex(record["data_hex"])


def acl_in(text):
    """Java's text of a list: entries `perms,s{'scheme,'id}` in brackets."""
    return tuple(Acl(int(perms), scheme, name) for perms, scheme, name in re.findall(r"(\d+),s\{'(.*?),'(.*?)\}", text))


def expected_nodes(tree):
    return {
        node["path"]: {
            "data": data_of(node),
            **{key: node[key] for key in ("czxid", "mzxid", "ctime", "mtime", "version", "aversion", "pzxid")},
            "cversion": node["storedCversion"],
            "owner": signed(node["ephemeralOwner"]),
            "type": node["ephemeralType"],
            "acl": tuple(Acl(one["perms"], one["scheme"], one["id"]) for one in node["acl"]),
            "children": sorted(node["children"]),
        }
        for node in tree["nodes"]
    }


def type_of(node):
    return "CONTAINER" if node.container else "TTL" if node.ttl_ms else "NORMAL" if node.session else "VOID"


def read_nodes(nodes):
    nodes = list(nodes)
    children = {node.path: [] for node in nodes}
    for node in nodes:
        if node.path != "/":
            head, _, name = node.path.rpartition("/")
            children[head or "/"].append(name)
    for node in nodes:
        assert node.num_children == len(children[node.path])
    return {
        node.path: {
            "data": node.data,
            **{key: getattr(node, key) for key in ("czxid", "mzxid", "ctime", "mtime", "version", "aversion", "pzxid")},
            "cversion": node.cversion,
            "owner": node.ephemeral_owner,
            "type": type_of(node),
            "acl": node.acl,
            "children": sorted(children[node.path]),
        }
        for node in nodes
        if not node.path.startswith("/zookeeper/")
    }


def sessions_of(tree):
    return {signed(session): timeout for session, timeout in tree["sessions"].items()}


def test_the_raw_files_are_those_that_java_lists():
    listed = [
        f"{case.removesuffix('.json')}/version-2/{file['name']}"
        for case in CASES
        for file in golden.load(case)["files"]
    ]
    assert sorted(listed) == RAW_FILES


@pytest.mark.parametrize("case", CASES)
def test_every_point_is_exact(case):
    files = files_of(case)
    for point in golden.load(case)["points"]:
        tree = point["tree"]
        exact = ExactTree(files, DataDirectory(files).plan(zxid=tree["lastProcessedZxid"]))
        assert read_nodes(exact.nodes()) == expected_nodes(tree)
        assert exact.summary.nodes == tree["nodeCount"] - 1  # Java counts the root twice: `/` and empty
        assert exact.summary.sessions == sessions_of(tree)


@pytest.mark.parametrize("case", CASES)
def test_every_point_is_exact_from_every_snapshot_before_it(case):
    files = files_of(case)
    names = files.names()
    logs = sorted((name for name in names if log_zxid(name) is not None), key=log_zxid)
    for point in golden.load(case)["points"]:
        zxid = point["tree"]["lastProcessedZxid"]
        for name in (name for name in names if (snapshot_zxid(name) if log_zxid(name) is None else zxid + 1) <= zxid):
            snapshot = SnapshotFile(files, name)
            tree = DataTree(snapshot.zxid, snapshot.tail().settled(snapshot.zxid))
            for node in snapshot.nodes():
                tree.load(node)
            for transaction in read_chain(files, logs, snapshot.zxid, zxid):
                tree.apply(transaction)
            assert read_nodes(tree.nodes()) == expected_nodes(point["tree"])


@pytest.mark.parametrize("case", CASES)
def test_the_newest_tree_is_what_java_loads_at_restart(case):
    files = files_of(case)
    restart = golden.load(case)["restart"]
    plan = DataDirectory(files).plan()
    exact = ExactTree(files, plan)
    assert sum(1 for _ in exact.nodes()) == restart["nodeCount"] - 1
    assert plan.zxid == restart["lastProcessedZxid"]
    assert plan.warnings == ()


@pytest.mark.parametrize("case", CASES)
def test_the_last_transaction_before_a_time_is_found(case):
    files = files_of(case)
    txns = golden.load(case)["txns"]
    directory = DataDirectory(files)
    for before, after in itertools.pairwise(txns):
        if before["time"] < after["time"]:
            plan = directory.plan(time_ms=after["time"] - 1)
            assert (plan.zxid, plan.time_ms) == (before["zxid"], before["time"])


def described(operation, session):
    """The operation in Java's words, as far as those go."""
    match operation:
        case CreateNode():
            words = {"path": operation.path, "data": operation.data, "parentCVersion": operation.parent_cversion}
            words["acl"] = operation.acl
            if ttl_of(operation.owner):
                return words | {"ttl": ttl_of(operation.owner)}
            return words if operation.owner == CONTAINER_OWNER else words | {"ephemeral": operation.owner == session}
        case DeleteNode():
            return {"path": operation.path}
        case SetData():
            return {"path": operation.path, "data": operation.data, "version": operation.version}
        case SetAcl():
            return {"path": operation.path, "acl": operation.acl, "version": operation.version}
        case CheckVersion():
            return {"path": operation.path, "version": operation.version}
    return described_session(operation, session)


def described_session(operation, session):
    match operation:
        case CreateSession(timeout):
            return {"timeOut": timeout}
        case CloseSession(paths):
            return {"paths2Delete": list(paths)}
        case Failed(code):
            return {"err": code}
        case Multi(types, operations):
            parts = [(kind, described(part, session)) for kind, part in zip(types, operations, strict=True)]
            return {"parts": parts, "failed": operation.failed}
    raise AssertionError(operation)


def expected_operation(kind, txn):
    assert KINDS[kind] == txn["class"]
    if txn["class"] == "MultiTxn":
        parts = [(part["type"], expected_operation(part["type"], part["txn"])) for part in txn["txns"]]
        return {"parts": parts, "failed": any(part["type"] == OpCode.ERROR for part in txn["txns"])}
    words = {key: value for key, value in txn.items() if key not in ("class", "data_hex")}
    if "data_hex" in txn:
        words["data"] = data_of(txn)
    if "acl" in txn:
        words["acl"] = acl_in(txn["acl"])
    elif kind in (OpCode.CREATE_TTL, OpCode.CREATE_CONTAINER):
        words["acl"] = OPEN_ACL  # the golden data leaves it out
    return words


@pytest.mark.parametrize("case", CASES)
def test_every_transaction_is_as_java_reads_it(case):
    files = files_of(case)
    logs = sorted((name for name in files.names() if log_zxid(name) is not None), key=log_zxid)
    read = [transaction for name in logs for transaction in LogFile(files, name).transactions(after=0)]
    for transaction, expected in zip(read, golden.load(case)["txns"], strict=True):
        header = transaction.header
        assert (header.zxid, header.cxid, header.time, header.type) == (
            *(expected[key] for key in ("zxid", "cxid", "time", "type")),
        )
        assert header.client_id == signed(expected["clientId"])
        assert described(transaction.operation, header.client_id) == expected_operation(header.type, expected["txn"])
        digest = expected["digest"]
        assert transaction.digest == (TransactionDigest(digest["version"], digest["treeDigest"]) if digest else None)


@pytest.mark.parametrize("case", CASES)
def test_the_digest_after_every_transaction_is_zookeeper_s(case):
    files = files_of(case)
    snapshot = next(name for name in files.names() if snapshot_zxid(name) == 0)
    logs = sorted((name for name in files.names() if log_zxid(name) is not None), key=log_zxid)
    tree = DataTree(0, 0, TreeDigest())
    for node in SnapshotFile(files, snapshot).nodes():
        tree.load(node)
    written = {txn["zxid"]: txn["digest"] for txn in golden.load(case)["txns"]}
    for transaction in read_chain(files, logs, 0, max(written)):
        tree.apply(transaction)
        if written[tree.zxid]:
            assert tree.digest.value == written[tree.zxid]["treeDigest"]


@pytest.mark.parametrize("case", CASES)
def test_the_digest_in_every_snapshot_is_that_of_its_nodes(case):
    files = files_of(case)
    for name in files.names():
        if snapshot_zxid(name):
            snapshot = SnapshotFile(files, name)
            digest = TreeDigest()
            for node in snapshot.nodes():
                digest.add(node)
            assert digest.agrees(snapshot.trailer.digest)
            assert digest.value == snapshot.trailer.digest.value
            assert snapshot.tail() == snapshot.trailer


@pytest.mark.parametrize("case", CASES)
def test_only_the_logs_that_a_point_needs_are_read(case):
    files = files_of(case)
    directory = DataDirectory(files)
    for name in directory.snapshots:
        plan = directory.plan(zxid=snapshot_zxid(name))
        assert (plan.snapshot, plan.logs) == (name, ())
    last = directory.plan()
    assert last.logs == (directory.logs[-1],)
    assert choose_logs(directory.logs, directory._candidate(directory.snapshots[0]), last.zxid) == tuple(directory.logs)
