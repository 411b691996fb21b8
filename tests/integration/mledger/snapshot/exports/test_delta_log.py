"""`--format delta`: each snapshot is a commit to one set of Delta tables, without a JVM."""

import os
import shutil
import sys

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from mledger.snapshot.exports.delta_log import COMMITTED, check_delta, commit_to_delta, storage_options
from mledger.snapshot.exports.destination import local_place
from mledger.snapshot.exports.directory import SnapshotDirectory
from mledger.snapshot.exports.errors import ExportError, FormatNotInstalled
from mledger.snapshot.exports.manifest import DELTA
from mledger.snapshot.sql.queries import CHANGES, QUERIES
from mledger.snapshot.tables.row_builder import TABLES
from tests.support.cli import answer, mledger
from tests.support.snapshots import tables
from tests.support.snapshots.exports import all_rows, write_snapshot, write_varied_cluster
from tests.support.snapshots.s3 import s3, s3_server
from tests.support.snapshots.snapshot_pairs import HOUR, NOW

__all__ = ["s3", "s3_server"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The URL of a cluster."""
    directory = tmp_path_factory.mktemp("exported-to-delta")
    with ZooKeeperServer.start(directory, sync=False) as server:
        write_varied_cluster(f"{server.url}/pulsar")
        yield f"{server.url}/pulsar"


@pytest.fixture(scope="module")
def lake(cluster, tmp_path_factory):
    """A directory of two snapshots, committed to Delta tables."""
    to = tmp_path_factory.mktemp("lake")
    for name in ("monday", "tuesday"):
        answer("snapshot", "export", to, "--format", "delta", "--name", name, url=cluster)
    return to


def rows(table, name):
    """The rows of a version of a Delta table, as a snapshot has them."""
    found = table.to_pyarrow_table().select(TABLES[name].schema.names).cast(TABLES[name].schema).to_pylist()
    return sorted(found, key=lambda row: [row[column] for column in tables.KEYS[name] if column in row])


def test_every_version_of_every_table_is_a_snapshot(lake):
    for name in TABLES:
        for version, snapshot in enumerate(("monday", "tuesday")):
            table = DeltaTable(lake / name, version=version)
            assert rows(table, name) == all_rows(lake / f"snapshot={snapshot}")[name]
        assert {entry["version"]: entry.get(COMMITTED) for entry in DeltaTable(lake / name).history()} == {
            0: "monday",
            1: "tuesday",
        }


def test_a_time_names_a_snapshot(lake):
    times = [entry["timestamp"] for entry in reversed(DeltaTable(lake / "topics").history())]
    table = DeltaTable(lake / "topics")
    table.load_as_version(f"{_utc(times[0])}")
    assert table.version() == 0


def test_the_manifest_records_the_versions_and_the_snapshot_is_like_any_other(lake, cluster, tmp_path):
    found = {each.name: each for each in SnapshotDirectory(lake).snapshots()}
    assert {table.version for table in found["monday"].tables.values()} == {0}
    assert {table.version for table in found["tuesday"].tables.values()} == {1}
    assert answer("snapshot", "verify", lake)["whole"]
    answer("snapshot", "export", tmp_path, url=cluster)
    assert all_rows(lake) == all_rows(tmp_path)
    changed = answer("snapshot", "diff", lake, tmp_path)
    assert {name: changed[name] for name in CHANGES if changed[name]} == {}
    for name, query in QUERIES.items():
        if not query.compares:
            assert answer("snapshot", "ask", lake, name) is not None


def test_committing_again_changes_no_version(lake):
    (newest,) = [each for each in SnapshotDirectory(lake).snapshots() if each.name == "tuesday"]
    assert commit_to_delta(local_place(lake), newest) == newest
    assert DeltaTable(lake / "topics").version() == 1


def test_a_removed_snapshot_leaves_the_newer_versions(cluster, tmp_path):
    export = ("snapshot", "export", tmp_path, "--format", "delta", "--keep", 1, "--yes")
    for name in ("monday", "tuesday"):
        answer(*export, "--name", name, url=cluster)
    assert [each["name"] for each in answer("snapshot", "list", tmp_path)] == ["tuesday"]
    assert rows(DeltaTable(tmp_path / "topics"), "topics") == all_rows(tmp_path)["topics"]


def write_both_days(to):
    """Two snapshots in Delta tables, of which `monday` is the newest version although `tuesday` is of a later point."""
    write_snapshot(to, "tuesday", NOW, file_format=DELTA, tenants=[{"tenant": "b"}])
    write_snapshot(to, "monday", NOW - HOUR, file_format=DELTA, tenants=[{"tenant": "a"}])


def tenants_in(to, **version):
    return DeltaTable(to / "tenants", **version).to_pyarrow_table()["tenant"].to_pylist()


def test_the_newest_version_removed_leaves_the_newest_snapshot_that_remains(tmp_path):
    write_both_days(tmp_path)
    with (directory := SnapshotDirectory(tmp_path)).writing():
        directory.remove("monday")
    assert tenants_in(tmp_path) == ["b"]
    assert tenants_in(tmp_path, version=0) == ["b"]


def test_the_last_delta_snapshot_removed_leaves_tables_without_rows(tmp_path):
    write_both_days(tmp_path)
    with (directory := SnapshotDirectory(tmp_path)).writing():
        directory.remove("monday")
        directory.remove("tuesday")
    assert {name: DeltaTable(tmp_path / name).to_pyarrow_table().num_rows for name in TABLES} == dict.fromkeys(
        TABLES, 0
    )


def test_the_versions_of_kept_snapshots_can_be_read_however_old_they_are(tmp_path):
    """deltalake removes logs that are older than a month and than its last checkpoint, unless it is told not to."""
    write_snapshot(tmp_path, "first", NOW, file_format=DELTA, tenants=[{"tenant": "a"}])
    DeltaTable(tmp_path / "tenants").alter.set_table_properties({"delta.checkpointInterval": "2"})
    for file in (tmp_path / "tenants" / "_delta_log").iterdir():
        os.utime(file, (0, 0))
    for number in range(1, 4):
        write_snapshot(tmp_path, f"later-{number}", NOW + number * HOUR, file_format=DELTA, tenants=[{"tenant": "b"}])
    assert tenants_in(tmp_path, version=0) == ["a"]


def test_a_snapshot_named_like_a_removed_one_is_a_version_of_its_own(tmp_path):
    write_both_days(tmp_path)
    with (directory := SnapshotDirectory(tmp_path)).writing():
        directory.remove("tuesday")
    write_snapshot(tmp_path, "tuesday", NOW + HOUR, file_format=DELTA, tenants=[{"tenant": "c"}])
    assert tenants_in(tmp_path) == ["c"]
    version = directory.find("tuesday").tables["tenants"].version
    assert tenants_in(tmp_path, version=version) == ["c"]


def test_a_bucket_holds_delta_tables(s3, cluster, monkeypatch):
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    done = mledger("snapshot", "export", "s3://metadata/lake", "--format", "delta", "--name", "one", url=cluster)
    assert done.code == 0, done.err
    assert rows(DeltaTable("s3://metadata/lake/topics"), "topics") == all_rows("s3://metadata/lake")["topics"]
    assert answer("snapshot", "verify", "s3://metadata/lake/snapshot=one")["whole"]


def test_it_is_refused_without_deltalake(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(FormatNotInstalled, match=r"pip install 'mledger\[delta\]'"):
        check_delta(local_place(tmp_path))


@pytest.mark.parametrize("name", ["a%20b", "a\\b", "a\nb"])
def test_a_path_that_deltalake_changes_is_refused_before_anything_is_written(tmp_path, name):
    done = mledger("snapshot", "export", tmp_path / name, "--format", "delta", url="zk://127.0.0.1:1")
    assert done.code == 1
    assert "--format delta needs a path without %" in done.err
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("rows", "partitions", "words"),
    [
        ({"topic": ["theirs"]}, None, "it is not partitioned by snapshot alone"),
        ({"topic": [1], "snapshot": ["theirs"]}, ["snapshot"], "its column topic has another type"),
        ({"owner": ["them"], "snapshot": ["theirs"]}, ["snapshot"], "no export has committed to it"),
        ({"topic": ["theirs"], "snapshot": ["theirs"]}, ["snapshot"], "no export has committed to it"),
    ],
)
def test_a_delta_table_of_something_else_is_refused_and_stays(tmp_path, rows, partitions, words):
    write_deltalake(tmp_path / "topics", pa.table(rows), partition_by=partitions)
    done = mledger("snapshot", "export", tmp_path, "--format", "delta", url="zk://127.0.0.1:1")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert f"{tmp_path}/topics is a Delta table of something else: {words}; move it away" in done.err
    with pytest.raises(ExportError, match=words):
        write_snapshot(tmp_path, "monday", NOW, file_format=DELTA)
    assert not list(tmp_path.glob("*/snapshot=monday"))
    write_snapshot(tmp_path, "parquet-alone", NOW)
    assert DeltaTable(tmp_path / "topics").to_pyarrow_table().to_pydict() == rows


def remove_log(to):
    shutil.rmtree(to / "topics/_delta_log")


def commit_other_files(to):
    """A log whose version 0 has other files than its snapshot."""
    remove_log(to)
    write_deltalake(to / "topics", pa.table({"topic": ["t"], "snapshot": ["now"]}), partition_by=["snapshot"])


@pytest.mark.parametrize(
    ("harm", "reason"),
    [(remove_log, "its version 0 cannot be read: "), (commit_other_files, "its version 0 has other files")],
)
def test_verify_tells_of_a_version_that_does_not_have_its_snapshot(tmp_path, harm, reason):
    write_snapshot(tmp_path, "now", NOW, file_format=DELTA)
    assert answer("snapshot", "verify", tmp_path)["whole"]
    harm(tmp_path)
    done = mledger("--output", "json", "snapshot", "verify", tmp_path)
    assert done.code == 1
    (found,) = [each for each in done.json["problems"] if each["path"] == "topics/_delta_log"]
    assert found["reason"].startswith(reason)


def test_verify_without_deltalake_checks_the_files_and_says_so(tmp_path, monkeypatch):
    write_snapshot(tmp_path, "now", NOW, file_format=DELTA)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    done = mledger("snapshot", "verify", tmp_path)
    assert done.code == 0
    assert "its versions were not checked" in done.err


def test_verify_of_a_copy_at_a_path_that_deltalake_changes_checks_the_files_and_says_so(tmp_path):
    write_snapshot(tmp_path / "here", "now", NOW, file_format=DELTA)
    shutil.copytree(tmp_path / "here", tmp_path / "a%20b")
    done = mledger("--output", "json", "snapshot", "verify", tmp_path / "a%20b")
    assert (done.code, done.json["whole"]) == (0, True)
    assert "its versions were not checked: " in done.err


def test_a_uri_gives_deltalake_its_keys_and_endpoint():
    assert storage_options("s3://key:se%2Fcret@b/x?scheme=http&endpoint_override=h%3A9&region=eu-1") == {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "se/cret",
        "AWS_REGION": "eu-1",
        "AWS_ENDPOINT_URL": "http://h:9",
        "AWS_ALLOW_HTTP": "true",
    }
    assert storage_options("s3://b/x") == {}


def _utc(milliseconds):
    from datetime import UTC, datetime

    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def test_what_a_killed_commit_leaves_in_a_log_goes_with_the_next_one(tmp_path):
    write_snapshot(tmp_path, "monday", NOW, file_format=DELTA)
    log = tmp_path / "topics" / "_delta_log"
    before = {each.name for each in log.iterdir()}
    left, others = [f"{1:020}.json#1", "_last_checkpoint#2"], [f"{2:020}.json#1", "mine#1"]
    for name in (*left, *others):
        (log / name).write_text("{")
    write_snapshot(tmp_path, "tuesday", NOW + HOUR, file_format=DELTA)
    assert {each.name for each in log.iterdir()} == {*before, f"{1:020}.json", *others}
