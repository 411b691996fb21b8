"""Random histories of a cluster's metadata as ZooKeeper's files: nodes of every kind, valid and broken, come and go."""

from tests.support.snapshots import varied_cluster
from tests.support.zookeeper.zookeeper_files import EPHEMERAL, log_bytes, transaction_bytes
from tests.support.zookeeper.zookeeper_tree import OPEN, ReferenceTree, parent_of, take_snapshot

LEDGERS_IN = "/ledgers/00/0000"
MARKS_IN = "/ledgers/underreplication/ledgers/0000/0000/0000"
TOPICS_IN = "/managed-ledgers/t/n/persistent"
OLD_TOPICS_IN = "/managed-ledgers/t/c/n/persistent"
PARTITIONED_IN = "/admin/partitioned-topics/t/n/persistent"
EPHEMERALS_IN = "/ledgers/available"

TOPICS = [f"{TOPICS_IN}/a", f"{TOPICS_IN}/b+c", f"{TOPICS_IN}/bad%name", f"{OLD_TOPICS_IN}/a"]
CURSORS = [f"{topic}/{name}" for topic in TOPICS for name in ("s", "u%2Fv", "not encoded")]
LEDGERS = [f"{LEDGERS_IN}/{name}" for name in ("L0001", "L0002", "L0003", "stray")]
MARKS = [f"{MARKS_IN}/0001", f"{MARKS_IN}/0001/urL0000000001", f"{MARKS_IN}/0001/urLx"]
BOOKIES = [f"{EPHEMERALS_IN}/{name}" for name in ("127.0.0.1:1", "127.0.0.1:2", "readonly/127.0.0.1:1", "b:0")]
COOKIES = [f"/ledgers/cookies/127.0.0.1:{port}" for port in (1, 3)]
OTHERS = ["/ledgers/idgen", "/schemas"]
PATHS = [*TOPICS, *CURSORS, *LEDGERS, *MARKS, *BOOKIES, *COOKIES, "/bookies", f"{PARTITIONED_IN}/p", *OTHERS]


def folders():
    found = {}
    for path in (*PATHS, "/managed-ledgers/x"):
        parts = parent_of(path).split("/")[1:] if path not in MARKS + CURSORS else MARKS_IN.split("/")[1:]
        for depth in range(1, len(parts) + 1):
            if parts[0]:
                found["/" + "/".join(parts[:depth])] = None
    return list(found)


def _below(*places):
    """The data of the golden nodes below places, and that of broken ones."""
    found = [data for path, data in varied_cluster.nodes().items() if path.startswith(places)]
    return [*found, b"", b"\xff\xff"]


def _records():
    """The data that nodes of each kind may have, by a path's beginning."""
    nodes = varied_cluster.nodes()
    depth = {path: path.count("/") for path in nodes}
    topics = [nodes[path] for path in nodes if path.startswith("/managed-ledgers/") and depth[path] == 5]
    cursors = [nodes[path] for path in nodes if path.startswith("/managed-ledgers/") and depth[path] == 6]
    ledgers = [nodes[path] for path in nodes if path.startswith("/ledgers/0") and depth[path] == 4]
    broken = [b"", b"\xff\xff"]
    marks = [b'replica: "127.0.0.1:1"\nctime: 5\n', b"", b"\xff"]
    of_paths = (
        (TOPICS, [*topics, *broken]),
        (CURSORS, [*cursors, *broken]),
        (LEDGERS, [*ledgers, *broken]),
        (MARKS, marks),
        (BOOKIES, _below("/ledgers/available/")),
        (COOKIES, _below("/ledgers/cookies/")),
        (["/bookies"], [nodes["/bookies"], b"{}", b"\xff"]),
        ([f"{PARTITIONED_IN}/p"], _below("/admin/partitioned-topics/")),
    )
    return {path: records for paths, records in of_paths for path in paths}


RECORDS = _records()


class ClusterHistory:
    """A ZooKeeper server with a cluster's metadata below `chroot`, whose transactions are random and valid."""

    def __init__(self, rng, chroot=""):
        self.rng = rng
        self.chroot = chroot
        self.tree = ReferenceTree()
        self.time = 1_700_000_000_000
        self.records = {}
        self._carry_out(1, ("open", 20_000))
        for path in ([chroot] if chroot else []) + [chroot + folder for folder in folders()]:
            self._carry_out(1, self._creation(path, b""))
        self.snapshots = {}
        self.snapshot()

    @property
    def zxid(self):
        return self.tree.zxid

    def snapshot(self, most_between=0):
        """The server writes a snapshot file, with up to so many transactions before each node."""
        name = f"snapshot.{self.zxid:x}"
        self.snapshots[name] = take_snapshot(self.tree, lambda: self.steps(self.rng.randrange(most_between + 1)))

    def steps(self, count):
        for _ in range(count):
            self._carry_out(*self._operation())

    def do(self, *operations):
        """Carry out these transactions, for a cluster without chroot."""
        for operation in operations:
            if operation[0] == "create":
                operation = (*operation[:-1], self.tree.nodes[parent_of(operation[1])].cversion + 1)
            self._carry_out(1, operation)

    def write(self, directory, *, snapshots=True, logs_from=0):
        """Write the server's files; the log has transactions from zxid `logs_from` on, in files of up to 16."""
        directory.mkdir(parents=True, exist_ok=True)
        for old in directory.iterdir():
            old.unlink()
        for name, data in self.snapshots.items() if snapshots else ():
            (directory / name).write_bytes(data)
        zxids = [zxid for zxid in self.records if zxid >= logs_from]
        for at in range(0, len(zxids), 16):
            records = [self.records[zxid] for zxid in zxids[at : at + 16]]
            (directory / f"log.{zxids[at]:x}").write_bytes(log_bytes(records))

    def _carry_out(self, session, operation):
        zxid = self.tree.zxid + 1
        if self.records and self.rng.random() < 0.02:
            zxid = ((self.tree.zxid >> 32) + 1 << 32) + 1
        self.time += self.rng.choice((0, 1, 1000))
        written = ("close", self.tree.ephemerals(session)) if operation[0] == "close" else operation
        self.tree.apply(zxid, operation, session=session, time=self.time)
        self.records[zxid] = transaction_bytes(zxid, written, session=session, time=self.time, digest=self.tree.digest)

    def _operation(self):
        rng = self.rng
        session = rng.choice(list(self.tree.sessions) or [0])
        draw = rng.random()
        if not self.tree.sessions or draw < 0.05:
            return rng.randrange(1, 1 << 40), ("open", 20_000)
        if draw < 0.1:
            return session, ("close", None)
        if draw < 0.15:
            return session, ("error", -101)
        if draw < 0.3:
            return session, self._multi(session)
        return session, self._change(self.tree)

    def _multi(self, session):
        scratch = ReferenceTree()
        scratch.nodes, scratch.sessions = dict(self.tree.nodes), dict(self.tree.sessions)
        scratch.acls = dict(self.tree.acls)
        parts = []
        for _ in range(self.rng.randrange(1, 4)):
            parts.append(self._change(scratch, acls=False))
            scratch.apply(self.tree.zxid + 1, parts[-1], session=session)
        if self.rng.random() < 0.2:
            parts.append(("error", -103))
        return ("multi", [*parts, ("check", "/", 0)])

    def _change(self, tree, *, acls=True):
        rng = self.rng
        while True:
            path = self.chroot + rng.choice(PATHS)
            node = tree.nodes.get(path)
            if node is None:
                if parent_of(path) not in tree.nodes:
                    continue
                return self._creation(path, self._record(path), tree)
            if node.children or rng.random() < 0.6:
                return ("set", path, self._record(path), node.version + 1)
            if acls and rng.random() < 0.1:
                return ("set acl", path, OPEN, node.aversion + 1)
            return ("delete", path)

    def _creation(self, path, data, tree=None):
        below = path[len(self.chroot) :]
        kind = EPHEMERAL if below in BOOKIES else self.rng.choice((None, "two"))
        parent = (tree or self.tree).nodes[parent_of(path)]
        return ("create", path, data, OPEN, kind, parent.cversion + 1)

    def _record(self, path):
        return self.rng.choice(RECORDS.get(path[len(self.chroot) :], [b""]))
