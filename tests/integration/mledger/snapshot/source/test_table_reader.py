"""The same cluster gives the same tables, row by row, read live, from ZooKeeper's files and from RocksDB."""

import gc
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from mledger.metastore.errors import MetadataAccessDenied, NodeNotFound
from mledger.metastore.url import open_reader, open_store
from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from mledger.snapshot import CorruptFile, FileNotReadable, ZxidNotCovered
from mledger.snapshot.source.options import parse_options
from mledger.snapshot.source.table_reader import plan_tables, read_tables
from mledger.snapshot.tables.row_builder import TABLES
from mledger.snapshot.zookeeper_files.errors import ChrootNotFound
from tests.support.aio import HANG_S, run
from tests.support.snapshots import tables, varied_cluster

WITHOUT_ZXIDS = {"czxid": None, "mzxid": None}


@dataclass(frozen=True)
class WrittenCluster:
    """A cluster below a chroot of a real server; `last` is the zxid of its last change."""

    server: ZooKeeperServer
    url: str
    files: dict[str, str]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    directory = tmp_path_factory.mktemp("varied")
    with ZooKeeperServer.start(directory, sync=False, java_options=("-Dzookeeper.snapCount=300",)) as server:
        url = f"{server.url}/pulsar"

        async def main():
            async with await open_store(url, create_chroot=True) as store:
                await tables.create_all(store, varied_cluster.nodes())

        run(main())
        yield WrittenCluster(server, url, {"metadata": f"file://{directory}/data", "chroot": "/pulsar"})


@pytest.fixture(scope="module")
def live(written):
    return tables.read({"metadata": written.url})


@contextmanager
def kazoo(server):
    client = KazooClient(server.connect_string)
    client.start(timeout=HANG_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def assert_same(found, expected):
    for name in TABLES:
        assert found[name] == expected[name], name


def test_every_table_has_rows(live):
    assert {name: len(rows) for name, rows in live.items() if len(rows) < 3} == {}


def test_files_give_the_same_as_the_live_server(written, live):
    assert_same(tables.read(written.files), live)


def test_rocksdb_gives_the_same_as_zookeeper(written, live, rocksdb_thread, tmp_path):
    async def copy():
        async with await open_reader(written.url) as reader:
            await varied_cluster.copy_to_rocksdb(reader, str(tmp_path / "copy"))

    run(copy())
    server = rocksdb_thread.serve(tmp_path / "copy")
    try:
        found = tables.read({"metadata": server.url})
        assert_same(found, {name: [row | WITHOUT_ZXIDS for row in rows] for name, rows in live.items()})
    finally:
        rocksdb_thread.stop(server)


def test_every_row_has_the_stat_of_its_znode(written, live):
    with kazoo(written.server) as client:
        for name, row in [(name, row) for name, rows in live.items() for row in rows]:
            assert 0 < row["czxid"] <= row["mzxid"], name
            assert row["mtime"].timestamp() > 0, name
            assert row["version"] >= 0, name
        for row in live["topics"][:3]:
            stat = client.exists(f"/pulsar/managed-ledgers/{row['managed_ledger']}")
            assert (row["czxid"], row["mzxid"], row["version"]) == (stat.czxid, stat.mzxid, stat.version)
            assert round(row["mtime"].timestamp() * 1000) == stat.mtime


@pytest.mark.parametrize("partitions", ["1", "3", "7"])
def test_shares_together_have_every_row_once(written, live, partitions):
    assert_same(tables.read_in_shares({"metadata": written.url, "partitions": partitions}), live)
    assert_same(tables.read_in_shares({**written.files, "partitions": partitions}), live)


def test_nodes_that_do_not_decode_are_only_in_the_table_errors(live):
    broken = {path for path in varied_cluster.BROKEN if not path.endswith("/good")}
    errors = {row["path"]: row for row in live["errors"]}
    assert set(errors) == broken
    shown = {
        path: data[:1024] for path, data in varied_cluster.BROKEN.items() if path != "/admin/policies/golden/broken"
    }
    assert all(row["error"] and row["data"] == shown.get(path) for path, row in errors.items())
    assert errors["/managed-ledgers/golden/broken/persistent/topic"]["topic"] == "persistent://golden/broken/topic"
    topics = [row["topic"] for row in live["topics"] if row["namespace"] == "golden/broken"]
    assert topics == ["persistent://golden/broken/good"]
    assert not [row for row in live["cursors"] if row["namespace"] == "golden/broken"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tenant": "golden"}, lambda row: row["tenant"] == "golden"),
        ({"tenant": "unknown"}, lambda row: False),
        ({"tenant": "other"}, lambda row: row["tenant"] == "other"),
        ({"namespace": "golden/parts"}, lambda row: row["namespace"] == "golden/parts"),
        ({"tenant": "golden", "namespace": "names"}, lambda row: row["namespace"] == "golden/names"),
        ({"namespace": "golden/cluster/ns0"}, lambda row: row["namespace"] == "golden/cluster/ns0"),
        (
            {"topic": "persistent://golden/parts/o r"},
            lambda row: row["topic"] is not None and row["topic"].startswith("persistent://golden/parts/o r"),
        ),
        ({"topic": "golden/rollover/topic-0"}, lambda row: row["topic"] == "persistent://golden/rollover/topic-0"),
    ],
)
def test_options_prune_the_same_way_for_every_input(written, live, options, expected):
    none = {"namespace": None, "topic": None}
    pruned = {
        name: [row for row in rows if not {"tenant", "topic"} & row.keys() or expected(none | row)]
        for name, rows in live.items()
    }
    assert_same(tables.read({"metadata": written.url, **options}), pruned)
    assert_same(tables.read({**written.files, **options}), pruned)


def test_only_the_requested_columns_are_made(written, live):
    found = tables.read({"metadata": written.url}, "cursors", columns=["holes", "managed_ledger", "cursor"])
    assert found["cursors"] == [
        {name: row[name] for name in ("holes", "managed_ledger", "cursor")} for row in live["cursors"]
    ]


def test_files_are_read_as_they_stood_at_a_zxid(written, live):
    with kazoo(written.server) as client:
        later = client.exists("/pulsar/managed-ledgers/golden/names").czxid
    found = tables.read({**written.files, "zxid": hex(later - 1)})
    for name in ("ledgers", "ensembles", "bookies", "underreplicated", "partitioned_topics"):
        assert found[name] == live[name], name
    for name in ("topics", "topic_ledgers", "cursors", "cursor_holes"):
        then = [row for row in live[name] if row["managed_ledger"] < "golden/names"]
        assert found[name] == then, name
    assert 0 < len(found["topics"]) < len(live["topics"])


def test_files_are_read_as_they_stood_at_a_time(written, live):
    plan = plan_tables(parse_options(written.files), ["topics"])
    assert_same(tables.read({**written.files, "time": str(plan.time_ms)}), live)


def test_a_rate_changes_no_row(written, live):
    assert_same(tables.read({"metadata": written.url, "rate": "20000"}), live)
    plan = plan_tables(parse_options({"metadata": written.url, "rate": "20000"}), ["topics", "ledgers"])
    assert plan.rate * len(plan.shares) == 20000


def test_reading_recovered_states_without_bookies_loses_no_row(written, live):
    found = tables.read({"metadata": written.url, "state": "recovered"})
    for name in ("topics", "ledgers", "ensembles", "bookies", "errors", "underreplicated", "partitioned_topics"):
        assert found[name] == live[name], name
    for row, stored in zip(found["cursors"], live["cursors"], strict=True):
        assert {row["state"], row["error"] is None} in ({"unreadable", False}, {"recovered", True})
        assert row["snapshot_ledger_id"] == stored["snapshot_ledger_id"]


@pytest.mark.parametrize("options", [{"metadata": "{url}"}, {"metadata": "{url}", "state": "recovered"}])
def test_a_read_may_be_abandoned(written, options, caplog, recwarn, monkeypatch):
    monkeypatch.setattr("mledger.snapshot.tables.row_builder.BATCH_ROWS", 4)
    given = {name: value.format(url=written.url) for name, value in options.items()}
    gc.collect()  # left by other tests
    recwarn.clear()
    batches = read_tables(parse_options(given), {"topics": None, "cursors": None})
    assert next(batches)[1].num_rows
    batches.close()
    assert not [record for record in caplog.records if record.name == "asyncio"]
    assert not recwarn.list


def test_nothing_is_written(written):
    async def zxids():
        async with await open_reader(written.server.url) as reader:
            return await _stats(reader, "/pulsar")

    before = run(zxids())
    tables.read({"metadata": written.url})
    tables.read(written.files)
    assert run(zxids()) == before


async def _stats(reader, path):
    found = {path: (await reader.exists(path))}
    for name in await reader.children(path):
        found |= await _stats(reader, f"{path}/{name}")
    return found


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"metadata": "{url}/nowhere"}, NodeNotFound, "has no node /pulsar/nowhere"),
        ({"metadata": "{server}"}, NodeNotFound, "give the cluster's chroot in the URL"),
        ({"metadata": "{files}", "chroot": "/nowhere"}, ChrootNotFound, "has no node /nowhere"),
        ({"metadata": "{files}"}, ChrootNotFound, "set the option chroot"),
        ({"metadata": "file:///nowhere"}, FileNotReadable, "/nowhere cannot be read"),
        ({"metadata": "{files}", "chroot": "/pulsar", "zxid": "0x7fffffff"}, ZxidNotCovered, "0x7fffffff"),
        ({"metadata": "{files}", "chroot": "/pulsar", "time": "1970-01-01"}, ZxidNotCovered, "give a later time"),
    ],
)
def test_bad_input_is_refused_in_one_clear_line(written, options, error, words):
    places = {"url": written.url, "server": written.server.url, "files": written.files["metadata"]}
    given = {name: value.format(**places) for name, value in options.items()}
    with pytest.raises(error) as raised:
        tables.read(given, "topics")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_error_names_a_corrupt_snapshot_file(written, tmp_path):
    plan = plan_tables(parse_options(written.files), ["topics"]).shares[0].plan
    source = written.server.data_dir / "data" / "version-2"
    for name in (plan.snapshot, *plan.logs):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    data = bytearray((tmp_path / plan.snapshot).read_bytes())
    data[data.index(b"BookieMetadataFormatVersion")] ^= 0x40
    (tmp_path / plan.snapshot).write_bytes(data)
    with pytest.raises(CorruptFile, match=plan.snapshot) as raised:
        list(read_tables(parse_options({**written.files, "metadata": f"file://{tmp_path}"}), {"topics": None}))
    assert "\n" not in str(raised.value)


def test_wrong_credentials_are_an_error_that_says_so(written):
    with kazoo(written.server) as client:
        client.create("/closed", acl=[make_digest_acl("somebody", "secret", all=True)])
    with pytest.raises(MetadataAccessDenied) as raised:
        tables.read({"metadata": f"{written.server.url}/closed"}, "topics")
    assert "access control" in str(raised.value)
