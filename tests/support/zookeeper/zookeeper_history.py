"""Random histories of a ZooKeeper server: valid transactions, the tree after each, snapshots in between, and files."""

import copy
import io

from tests.support.zookeeper.zookeeper_files import CONTAINER, EPHEMERAL, TTL, log_bytes, transaction_bytes
from tests.support.zookeeper.zookeeper_tree import OPEN, ReferenceTree, parent_of, take_snapshot

NAMES = ("a", "ü")  # few names, so that a path is created more than once
ACLS = (OPEN, ((1, "world", "anyone"), (31, "digest", "who:abc=")), ((4, "ip", "10.0.0.1"),))


class MemoryFiles:
    """The files of a server, in memory."""

    where = "memory"

    def __init__(self, contents):
        self.contents = contents

    def names(self):
        return sorted(self.contents)

    def open(self, name):
        return io.BytesIO(self.contents[name])


class ZooKeeperHistory:
    """A server that carries out random valid transactions; `states` and `sessions` are kept by zxid."""

    def __init__(self, rng, *, digests=True, lists=True):
        self.rng = rng
        self.digests = digests
        self.lists = lists
        self.tree = ReferenceTree()
        self.time = 1_000_000
        self.records = {}
        self.states = {0: self.tree.visible()}
        self.known_digests = {0: self.tree.digest}
        self.sessions = {0: {}}
        self.times = {}
        self.snapshots = {"snapshot.0": take_snapshot(self.tree, lambda: None)}
        self.log_starts = []

    def step(self):
        """Carry out one transaction."""
        rng, tree = self.rng, self.tree
        zxid = tree.zxid + 1
        if rng.random() < 0.03:
            zxid = ((tree.zxid >> 32) + 1 << 32) + 1
        self.time += rng.choice((0, 1, 7))
        session, operation = random_operation(rng, tree)
        written = operation
        if operation[0] == "close":
            paths = tree.ephemerals(session)
            rng.shuffle(paths)
            written = ("close", paths if self.lists else None)
        tree.apply(zxid, operation, session=session, time=self.time)
        self.records[zxid] = transaction_bytes(
            zxid, written, session=session, time=self.time, digest=tree.digest if self.digests else None
        )
        self.states[zxid] = tree.visible()
        self.known_digests[zxid] = tree.digest
        self.sessions[zxid] = dict(tree.sessions)
        self.times[zxid] = self.time
        if not self.log_starts or rng.random() < 0.1:
            self.log_starts.append(zxid)

    def steps(self, count):
        for _ in range(count):
            self.step()

    def snapshot(self, *, most_between=3, behind=0, **parts):
        """Take a snapshot with up to `most_between` transactions before each node; its name and settled zxid.

        With `behind` 1 the last transaction was still under way when the zxid was written down.
        """
        name = f"snapshot.{self.tree.zxid:x}"
        began = list(self.states)[-1]

        def said():
            settled = max(began, list(self.states)[-1 - behind])
            return settled, self.known_digests[settled]

        self.snapshots[name] = take_snapshot(
            self.tree, lambda: self.steps(self.rng.randrange(most_between + 1)), said=said, **parts
        )
        return name, said()[0]

    def logs(self):
        files, name = {}, ""
        for zxid, record in self.records.items():
            if zxid in self.log_starts:
                name = f"log.{zxid:x}"
                files[name] = []
            files[name].append(record)
        return {name: log_bytes(records) for name, records in files.items()}

    def files(self):
        return MemoryFiles({**self.snapshots, **self.logs()})


def random_operation(rng, tree):
    """A (session, operation) that the tree accepts."""
    session = rng.choice(list(tree.sessions) or [0])
    draw = rng.random()
    if not tree.sessions or draw < 0.08:
        return rng.randrange(1, 1 << 40), ("open", 20_000)
    if draw < 0.14:
        return session, ("close", None)
    if draw < 0.2:
        return session, ("error", -101)
    if draw < 0.35:
        return session, random_multi(rng, tree, session)
    return session, random_change(rng, tree)


def random_multi(rng, tree, session):
    scratch = copy.deepcopy(tree)
    parts = []
    for _ in range(rng.randrange(1, 4)):
        parts.append(random_change(rng, scratch, acls=False))
        scratch.apply(tree.zxid + 1, parts[-1], session=session)
    if rng.random() < 0.2:
        parts.append(("error", -103))
    parts.append(("check", "/", 0))
    return ("multi", parts)


def random_change(rng, tree, *, acls=True):
    """A creation, deletion or change; `acls` is False where a multi allows none."""
    path = rng.choice(list(tree.nodes))
    node = tree.nodes[path]
    draw = rng.random()
    if draw < 0.4 and path != "/" and not node.children:
        return (rng.choice(("delete", "delete container")), path)
    if draw < 0.6:
        return ("set", path, random_data(rng), node.version + 1)
    if draw < 0.7 and acls:
        return ("set acl", path, rng.choice(ACLS), node.aversion + 1)
    return random_creation(rng, tree) or ("set", "/", random_data(rng), tree.nodes["/"].version + 1)


def random_creation(rng, tree):
    parents = [path for path, node in tree.nodes.items() if path.count("/") < 3 and not is_ephemeral(node)]
    parent = rng.choice(parents)
    path = parent.rstrip("/") + "/" + rng.choice(NAMES)
    if path in tree.nodes:
        return None
    kind = rng.choice((None, None, "two", EPHEMERAL, CONTAINER, (TTL, rng.randrange(1, 1 << 39))))
    return ("create", path, random_data(rng), rng.choice(ACLS), kind, tree.nodes[parent_of(path)].cversion + 1)


def is_ephemeral(node):
    return node.owner > 0


def random_data(rng):
    return rng.choice((None, b"", rng.randbytes(rng.randrange(1, 40))))
