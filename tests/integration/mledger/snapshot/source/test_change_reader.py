"""Who changed what in a real ZooKeeper, from its transaction logs: by a reader, by SQL and by the command."""

import json

import duckdb
import pyarrow as pa
import pytest
from kazoo.client import KazooClient
from msgspec.structs import replace

from mledger.metastore.records.codec import (
    decode_managed_cursor_info,
    encode_managed_cursor_info,
)
from mledger.metastore.records.position import Position
from mledger.metastore.url import open_store
from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from mledger.snapshot.source.change_reader import plan_changes, read_change_batches
from mledger.snapshot.source.options import parse_options
from mledger.snapshot.zookeeper_files.errors import InvalidOption
from tests.support.aio import HANG_S, run
from tests.support.cli import mledger
from tests.support.snapshots import tables, varied_cluster

MOVED = 7, 3


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Options that name the files of a server; the path of a cursor that was moved, and the session that did it."""
    directory = tmp_path_factory.mktemp("changes")
    nodes = varied_cluster.nodes()
    path = next(path for path in nodes if path.startswith("/managed-ledgers/golden/") and path.count("/") == 6)
    with ZooKeeperServer.start(directory, sync=False, java_options=("-Dzookeeper.snapCount=300",)) as server:

        async def main():
            async with await open_store(f"{server.url}/pulsar", create_chroot=True) as store:
                await tables.create_all(store, nodes)

        run(main())
        client = KazooClient(server.connect_string)
        client.start(timeout=HANG_S)
        record = decode_managed_cursor_info(nodes[path], path).value
        moved = replace(record, mark_delete=Position(*MOVED))
        client.set(f"/pulsar{path}", encode_managed_cursor_info(moved))
        transaction = client.transaction()
        transaction.create("/pulsar/one", b"1")
        transaction.create("/pulsar/two", b"2")
        transaction.commit()
        session = client.client_id[0]
        client.delete(f"/pulsar{path}")
        client.stop()
        client.close()
    options = {"metadata": f"file://{directory}/data", "chroot": "/pulsar"}
    return options, path, record.mark_delete, f"0x{session & (1 << 64) - 1:x}"


def changes(options):
    parsed = parse_options(options)
    batches = read_change_batches(parsed, plan_changes(parsed))
    return [row for batch in batches for row in batch.to_pylist()]


def test_every_znode_is_created_once_with_its_record(written):
    options, *_ = written
    rows = changes(options)
    created = {row["path"]: row for row in rows if row["operation"] == "create"}
    assert created.keys() >= varied_cluster.nodes().keys()
    found = tables.read(options)
    for cursor in found["cursors"]:
        key = "cursor", cursor["topic"], cursor["cursor"]
        row = next(each for each in created.values() if (each["kind"], each["topic"], each["cursor"]) == key)
        after = json.loads(row["after"])
        assert (row["zxid"], row["time"]) == (cursor["czxid"], cursor["created"])
        assert after["holes"] == cursor["holes"]
        assert after["mark_delete_ledger_id"] == cursor["mark_delete_ledger_id"] == row["to_ledger_id"]
        assert row["before"] is None
        assert row["before_known"]
    for ledger in found["ledgers"]:
        key = "ledger", ledger["ledger_id"]
        after = json.loads(next(each["after"] for each in created.values() if (each["kind"], each["ledger_id"]) == key))
        assert after["state"] == ledger["state"]
        assert {each["bookie_id"] for each in after["ensembles"]} == set(ledger["bookies"])
    broken = {path for path in varied_cluster.BROKEN if not path.endswith("/good")} - {"/ledgers/00/0009/stray"}
    assert all("error" in json.loads(created[path]["after"]) for path in broken)


def test_who_moved_a_cursor_when_and_from_where_is_one_query(written):
    options, path, before, session = written
    parsed = parse_options(options)
    connection = duckdb.connect()
    connection.register("changes", pa.Table.from_batches(read_change_batches(parsed, plan_changes(parsed))))
    found = connection.execute(
        "select session, operation, from_ledger_id, from_entry_id, to_ledger_id, to_entry_id from changes "
        "where path = ? and operation <> 'create' order by zxid",
        [path],
    ).fetchall()
    assert found == [
        (session, "set", *before, *MOVED),
        (session, "delete", *MOVED, None, None),
    ]


def test_operations_of_a_multi_are_rows_of_one_zxid(written):
    options, *_ = written
    rows = [row for row in changes(options) if row["path"] in ("/one", "/two")]
    assert [(row["index"], row["path"], row["version"]) for row in rows] == [(0, "/one", 0), (1, "/two", 0)]
    assert len({row["zxid"] for row in rows}) == 1


def test_a_range_begins_after_a_zxid_and_ends_at_one(written):
    options, *_ = written
    rows = changes(options)
    first, last = rows[10]["zxid"], rows[-5]["zxid"]
    part = changes({**options, "after": hex(first), "zxid": hex(last)})
    assert part == [row for row in rows if first < row["zxid"] <= last]


def test_only_the_topics_asked_for(written):
    options, path, *_ = written
    row = next(row for row in changes(options) if row["path"] == path)
    found = changes({**options, "topic": row["topic"]})
    assert {each["topic"] for each in found} == {row["topic"]}
    assert {"topic", "cursor"} <= {each["kind"] for each in found}


def test_a_tenant_s_changes_are_all_of_its_nodes_and_no_others(written):
    options, *_ = written
    everything = [row for row in changes(options) if row["tenant"] == "golden"]
    assert {"topic", "cursor", "ledger", "partitioned topic"} <= {row["kind"] for row in everything}
    assert changes({**options, "tenant": "golden"}) == everything


def test_a_running_store_has_no_logs_to_read():
    with pytest.raises(InvalidOption, match="the table changes is made from ZooKeeper's transaction logs"):
        plan_changes(parse_options({"metadata": "zk://127.0.0.1:1"}))


def test_the_command_shows_who_moved_a_cursor(written):
    options, path, before, session = written
    row = next(row for row in changes(options) if row["path"] == path)
    arguments = ["snapshot", "changes", "-D", "chroot=/pulsar", "--topic", row["topic"], "--cursor", row["cursor"]]
    result = mledger("--metadata", options["metadata"], "--output", "json", *arguments)
    found = [each for each in result.json if each["kind"] == "cursor"]
    assert [each["operation"] for each in found] == ["create", "set", "delete"]
    assert found[1]["session"] == session
    assert found[1]["from"] == f"{before[0]}:{before[1]}"
    assert found[1]["to"] == f"{MOVED[0]}:{MOVED[1]}"
    newest = mledger("--metadata", options["metadata"], "--output", "json", *arguments, "--limit", "1").json
    assert newest == found[-1:]
