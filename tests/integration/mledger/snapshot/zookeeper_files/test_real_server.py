"""A real server's directory, read beside the server and after a kill, gives the tree that its clients see."""

import random

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from mledger.snapshot import DataDirectory, ExactTree, LocalFiles
from mledger.snapshot.zookeeper_files.errors import LogDoesNotFit
from tests.support.aio import HANG_S

ENDINGS = {"": "", "gz": ".gz", "snappy": ".snappy"}


@pytest.fixture(params=ENDINGS)
def busy_server(request, tmp_path):
    """A server that begins a snapshot every few transactions, while others continue; the ending of its files."""
    options = ("-Dzookeeper.snapCount=40", f"-Dzookeeper.snapshot.compression.method={request.param}")
    with ZooKeeperServer.start(tmp_path / "zookeeper", sync=False, java_options=options) as server:
        yield server, LocalFiles(str(tmp_path / "zookeeper" / "data")), ENDINGS[request.param]


@pytest.fixture
def clients(busy_server):
    server, _, _ = busy_server
    started = []

    def start():
        client = KazooClient(server.connect_string)
        client.start(timeout=HANG_S)
        started.append(client)
        return client

    yield start
    for client in started:
        client.stop()
        client.close()


def seen_by(client):
    """The tree as clients see it, by path: data and stat. Without ZooKeeper's own nodes."""
    seen = {}

    def look(path):
        data, stat = client.get(path)
        seen[path] = (data, tuple(stat))
        for name in client.get_children(path):
            if (path, name) != ("/", "zookeeper"):
                look(path.rstrip("/") + "/" + name)

    look("/")
    return seen


def read_at(files, zxid, ending):
    """The tree at a zxid; without a snapshot of just that, if it was written while the next transaction was applied."""
    exact = f"snapshot.{zxid:x}{ending}"
    try:
        return read_from(files, zxid=zxid)
    except LogDoesNotFit as error:
        if error.file != exact:
            raise
        return read_from(files, without={exact}, zxid=zxid)


def read_from(files, without=(), **at):
    plan = DataDirectory(files, without=without).plan(**at)
    tree = ExactTree(files, plan)
    nodes = {
        node.path: (
            node.data or b"",
            (
                *(node.czxid, node.mzxid, node.ctime, node.mtime, node.version, node.client_cversion, node.aversion),
                *(node.session, len(node.data or b""), node.num_children, node.pzxid),
            ),
        )
        for node in tree.nodes()
        if node.path.split("/")[1] != "zookeeper"
    }
    return plan, nodes, tree.summary


def write_at_random(client, rng, count):
    """Many requests in flight at once. Failed ones are part of the history."""
    paths = [f"/n{one}" for one in range(12)]
    answers = []
    for _ in range(count):
        path = rng.choice(paths) + rng.choice(("", f"/c{rng.randrange(6)}"))
        draw = rng.random()
        if draw < 0.4:
            answers.append(client.create_async(path, rng.randbytes(20), ephemeral="/c" in path and rng.random() < 0.3))
        elif draw < 0.7:
            answers.append(client.delete_async(path))
        elif draw < 0.85:
            answers.append(client.set_async(path, rng.randbytes(30)))
        else:
            multi = client.transaction()
            multi.create(path, b"by multi")
            multi.set_data(rng.choice(paths), b"too")
            answers.append(multi.commit_async())
    for answer in answers:
        try:
            answer.get(timeout=HANG_S)
        except KazooException:
            continue


def test_every_point_is_what_clients_saw(busy_server, clients):
    server, files, ending = busy_server
    rng = random.Random(3)
    keeper = clients()
    points = {}
    for _ in range(4):
        passing = clients()
        write_at_random(passing, rng, 150)
        keeper.sync("/")
        points[keeper.last_zxid] = seen_by(keeper)
        assert read_from(files)[1] == points[keeper.last_zxid], "beside the server, at rest"
        passing.stop()
        keeper.sync("/")
        write_at_random(keeper, rng, 50)
        points[keeper.last_zxid] = seen_by(keeper)
    server.kill()
    used = set()
    for zxid, seen in points.items():
        plan, nodes, summary = read_at(files, zxid, ending)
        assert (plan.zxid, nodes) == (zxid, seen)
        assert summary.digests_compared
        assert plan.snapshot.endswith(ending)
        used.add(plan.snapshot)
    assert len(used) > 1
    assert read_from(files)[0].zxid == max(points)
