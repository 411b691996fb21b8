"""`--format iceberg`: each snapshot is a commit to one set of Iceberg tables, without a JVM."""

import shutil
import sys
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import copy_files

from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from mledger.snapshot.exports import files, iceberg_tables
from mledger.snapshot.exports.destination import local_place, place_at
from mledger.snapshot.exports.directory import SnapshotDirectory
from mledger.snapshot.exports.errors import DestinationNotLocal, ExportError, FormatNotInstalled
from mledger.snapshot.exports.iceberg_tables import (
    COMMITTED,
    HOME,
    NAMESPACE,
    check_iceberg,
    check_iceberg_tables,
    commit_to_iceberg,
    forget_in_iceberg,
    open_catalog,
)
from mledger.snapshot.exports.manifest import ICEBERG, PARQUET
from mledger.snapshot.sql.queries import CHANGES, QUERIES
from mledger.snapshot.tables.row_builder import TABLES
from tests.support.cli import answer, mledger
from tests.support.commands.documents import blocks_of
from tests.support.snapshots import exports, tables
from tests.support.snapshots.exports import all_rows, rows_of, write_snapshot, write_varied_cluster
from tests.support.snapshots.iceberg_tables import iceberg_table, metadata_files, names, topics
from tests.support.snapshots.s3 import s3, s3_server
from tests.support.snapshots.snapshot_pairs import HOUR, NOW

__all__ = ["s3", "s3_server"]

EXPORT = ("snapshot", "export", "--format", "iceberg")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The URL of a cluster."""
    at = tmp_path_factory.mktemp("exported-to-iceberg")
    with ZooKeeperServer.start(at, sync=False) as server:
        write_varied_cluster(f"{server.url}/pulsar")
        yield f"{server.url}/pulsar"


@pytest.fixture(scope="module")
def lake(cluster, tmp_path_factory):
    """A directory of two snapshots, committed to Iceberg tables; its path has what URIs would encode."""
    to = tmp_path_factory.mktemp("lake") / "of Iceberg, 100%41"
    answer(*EXPORT, to, "--name", "monday", "-D", "tenant=golden", url=cluster)
    answer(*EXPORT, to, "--name", "tuesday", url=cluster)
    return to


def rows(scan, name):
    """The rows of a scan of an Iceberg table, as a snapshot has them."""
    found = scan.to_arrow().select(TABLES[name].schema.names).cast(TABLES[name].schema).to_pylist()
    return sorted(found, key=lambda row: [row[column] for column in tables.KEYS[name] if column in row])


def test_every_version_of_every_table_is_a_snapshot(lake):
    for name in TABLES:
        table = iceberg_table(lake, name)
        assert [each.summary[COMMITTED] for each in table.snapshots()] == ["monday", "tuesday"]
        for version in table.snapshots():
            snapshot = version.summary[COMMITTED]
            assert (
                rows(table.scan(snapshot_id=version.snapshot_id), name) == all_rows(lake / f"snapshot={snapshot}")[name]
            )


def test_the_newest_export_is_the_current_version_and_tags_and_times_name_the_others(lake):
    table = iceberg_table(lake)
    monday, tuesday = table.snapshots()
    assert table.current_snapshot() == tuesday
    assert {name: table.snapshot_by_name(name).snapshot_id for name in ("monday", "tuesday")} == {
        "monday": monday.snapshot_id,
        "tuesday": tuesday.snapshot_id,
    }
    assert table.snapshot_as_of_timestamp(tuesday.timestamp_ms - 1) == monday


def test_each_row_has_its_snapshot(lake):
    found = iceberg_table(lake).scan(row_filter="snapshot = 'tuesday'").to_arrow()
    assert found.num_rows == len(all_rows(lake)["topics"])
    assert set(found["snapshot"].to_pylist()) == {"tuesday"}


def test_the_program_of_the_guide_reads_a_snapshot(tmp_path):
    found = [row | {"tenant": tenant} for row, tenant in zip(topics("a", "b"), ("public", "other"), strict=True)]
    write_snapshot(tmp_path, "last-transaction", NOW, file_format=ICEBERG, topics=found)
    write_snapshot(tmp_path, "later", NOW, file_format=ICEBERG)
    read: dict[str, object] = {}
    for block in blocks_of("how-to/reports.md", "python"):
        exec(block.text.replace("/backup/metadata", str(tmp_path)), read)
    assert read["rows"]["topic"].to_pylist() == ["a"]


def test_duckdb_queries_a_scan(lake):
    asked = iceberg_table(lake).scan().to_duckdb("topics")
    counts = dict(asked.execute("select tenant, count(*) from topics group by all").fetchall())
    expected = [row["tenant"] for row in all_rows(lake)["topics"]]
    assert counts == {tenant: expected.count(tenant) for tenant in expected}


def test_the_manifest_records_the_versions_and_the_snapshot_is_like_any_other(lake, cluster, tmp_path):
    found = {each.name: each for each in SnapshotDirectory(lake).snapshots()}
    for name in TABLES:
        versions = [found[snapshot].tables[name].version for snapshot in ("monday", "tuesday")]
        assert versions == [each.snapshot_id for each in iceberg_table(lake, name).snapshots()]
    assert answer("snapshot", "verify", lake)["whole"]
    answer("snapshot", "export", tmp_path, url=cluster)
    assert all_rows(lake) == all_rows(tmp_path)
    changed = answer("snapshot", "diff", lake, tmp_path)
    assert {name: changed[name] for name in CHANGES if changed[name]} == {}
    for name, query in QUERIES.items():
        if not query.compares:
            assert answer("snapshot", "ask", lake, name) is not None
    done = mledger("report", lake, "--to", tmp_path / "report.html")
    assert done.code == 0, done.err


def test_the_tables_of_a_directory_hold_nothing_of_iceberg(lake):
    assert set(pq.read_table(lake / "topics")["snapshot"].to_pylist()) == {"monday", "tuesday"}


def test_committing_again_changes_no_version(lake):
    (newest,) = [each for each in SnapshotDirectory(lake).snapshots() if each.name == "tuesday"]
    before = metadata_files(lake)
    assert commit_to_iceberg(local_place(lake), newest) == newest
    assert metadata_files(lake) == before


def test_an_export_that_dies_between_two_commits_shows_no_snapshot_and_the_next_completes_it(tmp_path, monkeypatch):
    write_snapshot(tmp_path, "monday", NOW, file_format=ICEBERG, topics=topics("a"))
    commit, committed = iceberg_tables._commit, []

    def dying(catalog, there, name, *more):
        if len(committed) == len(TABLES) // 2:
            raise KeyboardInterrupt
        committed.append(name)
        return commit(catalog, there, name, *more)

    with monkeypatch.context() as patched:
        patched.setattr(iceberg_tables, "_commit", dying)
        with pytest.raises(KeyboardInterrupt):
            write_snapshot(tmp_path, "tuesday", NOW, file_format=ICEBERG, topics=topics("a", "b"))
    assert [each["name"] for each in answer("snapshot", "list", tmp_path)] == ["monday"]
    assert len(iceberg_table(tmp_path, committed[0]).snapshots()) == 2
    with SnapshotDirectory(tmp_path).writing():
        pass
    assert [each["name"] for each in answer("snapshot", "list", tmp_path)] == ["monday", "tuesday"]
    assert {len(iceberg_table(tmp_path, name).snapshots()) for name in TABLES} == {2}
    assert answer("snapshot", "verify", tmp_path)["whole"]


def test_a_table_of_others_in_the_catalog_keeps_no_snapshot_from_being_removed(tmp_path):
    write_snapshot(tmp_path, "monday", NOW, file_format=ICEBERG, topics=topics("a"))
    open_catalog(local_place(tmp_path)).create_table((NAMESPACE, "notes"), pa.schema({"note": pa.string()}))
    SnapshotDirectory(tmp_path).remove("monday")
    assert open_catalog(local_place(tmp_path)).list_tables(NAMESPACE) == [(NAMESPACE, "notes")]


def test_a_removed_snapshot_leaves_the_newer_versions_and_no_metadata(cluster, tmp_path):
    for name in ("monday", "tuesday", "wednesday"):
        answer(*EXPORT, tmp_path, "--keep", 1, "--yes", "--name", name, url=cluster)
    assert [each["name"] for each in answer("snapshot", "list", tmp_path)] == ["wednesday"]
    table = iceberg_table(tmp_path)
    assert list(table.refs()) == ["main", "wednesday"]
    assert rows(table.scan(), "topics") == all_rows(tmp_path)["topics"]
    assert len(metadata_files(tmp_path)) == 2 * len(TABLES)


def test_the_current_version_removed_leaves_the_one_before(tmp_path):
    for name, found in (("monday", "a"), ("tuesday", "b")):
        write_snapshot(tmp_path, name, NOW, file_format=ICEBERG, topics=topics(found))
    snapshots = SnapshotDirectory(tmp_path)
    snapshots.remove("tuesday")
    assert names(iceberg_table(tmp_path)) == ["a"]
    snapshots.remove("monday")
    assert open_catalog(local_place(tmp_path)).list_tables("pulsar") == []
    write_snapshot(tmp_path, "wednesday", NOW, file_format=ICEBERG, topics=topics("c"))
    assert names(iceberg_table(tmp_path)) == ["c"]


def test_snapshots_of_parquet_alone_are_removed_from_no_table(tmp_path):
    write_snapshot(tmp_path, "monday", NOW, file_format=ICEBERG, topics=topics("a"))
    write_snapshot(tmp_path, "tuesday", NOW, file_format=PARQUET, topics=topics("b"))
    SnapshotDirectory(tmp_path).remove("tuesday")
    assert names(iceberg_table(tmp_path)) == ["a"]


def test_a_column_that_is_added_is_in_newer_versions_alone(tmp_path, monkeypatch):
    whole = TABLES["topics"]
    before = dict(TABLES) | {"topics": type(whole)("topics", whole.doc, whole.columns[:-1])}
    with monkeypatch.context() as patched:
        for module in (exports, files, iceberg_tables):
            patched.setattr(module, "TABLES", before)
        write_snapshot(tmp_path, "monday", NOW, file_format=ICEBERG, topics=topics("a"))
    added = whole.columns[-1].name
    assert added not in iceberg_table(tmp_path).schema().column_names
    write_snapshot(tmp_path, "tuesday", NOW + timedelta(hours=1), file_format=ICEBERG, topics=topics("a", "b"))
    table = iceberg_table(tmp_path)
    monday = table.scan(snapshot_id=table.snapshot_by_name("monday").snapshot_id).to_arrow()
    assert (added in monday.schema.names, monday["topic"].to_pylist()) == (False, ["a"])
    assert rows(table.scan(), "topics") == all_rows(tmp_path)["topics"]


def test_a_snapshot_may_be_named_like_icebergs_main_branch(tmp_path):
    for name, found in (("main", "a"), ("tuesday", "b")):
        write_snapshot(tmp_path, name, NOW, file_format=ICEBERG, topics=topics(found))
    assert names(iceberg_table(tmp_path)) == ["b"]


@pytest.mark.parametrize("transfer", [shutil.move, shutil.copytree])
def test_a_directory_that_was_moved_or_copied_says_what_to_remove(tmp_path, transfer):
    write_snapshot(tmp_path / "here", "monday", NOW, file_format=ICEBERG)
    transfer(tmp_path / "here", tmp_path / "there")
    with pytest.raises(ExportError, match=r"if the directory was moved or copied, remove .*/there/_iceberg"):
        write_snapshot(tmp_path / "there", "tuesday", NOW, file_format=ICEBERG)
    assert not list((tmp_path / "there").glob("*/snapshot=tuesday"))
    shutil.rmtree(tmp_path / "there/_iceberg")
    write_snapshot(tmp_path / "there", "tuesday", NOW, file_format=ICEBERG)
    assert list(iceberg_table(tmp_path / "there").refs()) == ["main", "tuesday"]


def test_it_is_refused_without_pyiceberg(monkeypatch, tmp_path):
    write_snapshot(tmp_path, "monday", NOW, file_format=ICEBERG)
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog.sql", None)
    with pytest.raises(FormatNotInstalled, match=r"pip install 'mledger\[iceberg\]'"):
        check_iceberg(local_place(tmp_path))
    with pytest.raises(FormatNotInstalled):
        SnapshotDirectory(tmp_path).remove("monday")
    assert [each["name"] for each in answer("snapshot", "list", tmp_path)] == ["monday"]


def test_a_destination_that_sqlite_cannot_be_in_is_refused_before_anything_is_written(tmp_path):
    done = mledger(*EXPORT, "s3://bucket/lake?endpoint_override=127.0.0.1:1&scheme=http", url="zk://127.0.0.1:1")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "s3://bucket/lake: --format iceberg keeps its catalog in a SQLite file" in done.err
    with pytest.raises(DestinationNotLocal, match="name another directory"):
        check_iceberg(local_place(tmp_path / "C#"))


def foreign_table(to, schema, *partitions):
    """A table `topics` in the catalog of a directory that no export made."""
    place = local_place(to)
    place.below(HOME).create_directory()
    catalog = open_catalog(place)
    catalog.create_namespace(NAMESPACE)
    table = catalog.create_table((NAMESPACE, "topics"), schema, f"file://{place.path}/{HOME}/topics")
    with table.update_spec() as spec:
        for each in partitions:
            spec.add_identity(each)
    catalog.close()


@pytest.mark.parametrize(
    ("columns", "partitions", "words"),
    [
        ({"topic": pa.string()}, (), "it is not partitioned by snapshot alone"),
        ({"topic": pa.int64()}, ("snapshot",), "its column topic has another type"),
        ({"entries": pa.int32()}, ("snapshot",), "its column entries has another type"),
        ({"properties": pa.list_(pa.string())}, ("snapshot",), "its column properties has another type"),
        ({"topic": pa.string()}, ("snapshot",), "no export has created it"),
    ],
)
def test_a_table_of_something_else_in_the_catalog_is_refused_before_anything_is_visible(
    tmp_path, columns, partitions, words
):
    foreign_table(tmp_path, pa.schema(columns | {"snapshot": pa.string()}), *partitions)
    done = mledger(*EXPORT, tmp_path, url="zk://127.0.0.1:1")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert f"the Iceberg table pulsar.topics in {tmp_path}/_iceberg is of something else: {words}" in done.err
    with pytest.raises(ExportError, match=words):
        write_snapshot(tmp_path, "monday", NOW, file_format=ICEBERG)
    assert not list(tmp_path.glob("*/snapshot=monday"))
    write_snapshot(tmp_path, "parquet-alone", NOW)
    assert rows_of(tmp_path, "topics") == []


def test_a_table_that_a_killed_export_left_before_there_was_the_mark_takes_a_snapshot(tmp_path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(iceberg_tables, "_settings", lambda _: {"write.metadata.delete-after-commit.enabled": "true"})
        patched.setattr(iceberg_tables, "_write_version", killed)
        with pytest.raises(KeyboardInterrupt):
            write_snapshot(tmp_path, "monday", NOW, file_format=ICEBERG, bookies=[{"bookie_id": "a"}])
    check_iceberg_tables(local_place(tmp_path))
    with SnapshotDirectory(tmp_path).writing():
        pass
    assert verified(tmp_path) == (0, {}, "")


def test_verify_tells_of_a_version_that_does_not_have_its_snapshot(tmp_path):
    write_snapshot(tmp_path, "monday", NOW, file_format=ICEBERG)
    write_snapshot(tmp_path, "tuesday", NOW + HOUR, file_format=ICEBERG)
    assert answer("snapshot", "verify", tmp_path / "snapshot=monday")["whole"]
    forget_in_iceberg(local_place(tmp_path), "monday")
    assert answer("snapshot", "verify", tmp_path / "snapshot=tuesday")["whole"]
    done = mledger("--output", "json", "snapshot", "verify", tmp_path / "snapshot=monday")
    assert done.code == 1
    assert [each["path"] for each in done.json["problems"]] == sorted(f"_iceberg/{table}" for table in TABLES)
    (tmp_path / "_iceberg/catalog.db").unlink()
    done = mledger("--output", "json", "snapshot", "verify", tmp_path / "snapshot=tuesday")
    assert [each["path"] for each in done.json["problems"]] == ["_iceberg/catalog.db"]


def verified(to):
    """The exit code of `verify`, its problems by path, and its warnings."""
    done = mledger("--output", "json", "snapshot", "verify", to)
    return done.code, {each["path"]: each["reason"] for each in done.json["problems"]}, done.err


@pytest.mark.parametrize("name", ["C#", "what?"])
def test_verify_of_a_copy_where_no_catalog_can_be_checks_the_files_and_says_so(tmp_path, name):
    write_snapshot(tmp_path / "here", "monday", NOW, file_format=ICEBERG)
    shutil.copytree(tmp_path / "here", tmp_path / name)
    code, problems, warnings = verified(tmp_path / name)
    assert (code, problems) == (0, {})
    assert "its versions were not checked: " in warnings
    next((tmp_path / name).glob("topics/*/*.parquet")).write_bytes(b"")
    code, problems, warnings = verified(tmp_path / name)
    assert (code, len(problems)) == (1, 1)
    assert "its versions were not checked: " in warnings


def test_verify_of_a_copy_in_a_bucket_checks_the_files_and_says_so(s3, tmp_path):
    write_snapshot(tmp_path, "monday", NOW, file_format=ICEBERG)
    bucket = place_at("s3://metadata/copy")
    copy_files(str(tmp_path), bucket.path, destination_filesystem=bucket.system)
    code, problems, warnings = verified("s3://metadata/copy")
    assert (code, problems) == (0, {})
    assert "its versions were not checked: s3://metadata/copy: --format iceberg keeps its catalog in " in warnings


def test_verify_after_the_tables_were_removed_checks_the_files_and_says_so(tmp_path):
    write_snapshot(tmp_path, "monday", NOW, file_format=ICEBERG)
    shutil.rmtree(tmp_path / "_iceberg")
    code, problems, warnings = verified(tmp_path)
    assert (code, problems) == (0, {})
    assert f"its versions were not checked: {tmp_path}/_iceberg was removed" in warnings


def test_a_directory_is_the_same_by_the_path_of_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    write_snapshot(tmp_path / "lake", "monday", NOW, file_format=ICEBERG, topics=topics("a"))
    assert verified(tmp_path / "link") == (0, {}, "")
    write_snapshot(tmp_path / "link", "tuesday", NOW + HOUR, file_format=ICEBERG, topics=topics("b"))
    (tmp_path / "link").unlink()
    assert verified(tmp_path / "lake") == (0, {}, "")
    assert names(iceberg_table(tmp_path / "lake")) == ["b"]


def test_a_damaged_catalog_is_a_problem_and_takes_no_export(tmp_path):
    write_snapshot(tmp_path, "monday", NOW, file_format=ICEBERG)
    (tmp_path / "_iceberg/catalog.db").write_bytes(b"not a database, " * 256)
    code, problems, _ = verified(tmp_path)
    assert (code, problems) == (1, {"_iceberg/catalog.db": "it cannot be read: file is not a database"})
    with pytest.raises(ExportError, match=r"_iceberg cannot be read: file is not a database; restore them, or if "):
        write_snapshot(tmp_path, "tuesday", NOW, file_format=ICEBERG)
    assert not list(tmp_path.glob("*/snapshot=tuesday"))


def cut(path):
    """Leave a part of a file's header."""
    path.write_bytes(path.read_bytes()[:100])


def scramble(path):
    """Overwrite what is compressed in a file: the block between its two sync markers, after its count and size."""
    data = path.read_bytes()
    marker = data[-16:]
    begin = data.index(marker) + len(marker) + 3
    path.write_bytes(data[:begin] + b"\xff" * (len(data) - len(marker) - begin) + marker)


def replace_by_a_list(path):
    """Put the list of a version's manifests in the place of a manifest."""
    if not path.name.startswith("snap-"):
        shutil.copy(next(path.parent.glob("snap-*.avro")), path)


def replace_by_a_manifest(path):
    """Put a version's manifest in the place of their list."""
    if path.name.startswith("snap-"):
        shutil.copy(next(path.parent.glob("*-m0.avro")), path)


@pytest.mark.parametrize("harm", [cut, scramble, replace_by_a_list, replace_by_a_manifest])
def test_damaged_metadata_is_a_problem_of_its_table(tmp_path, harm):
    write_snapshot(tmp_path, "monday", NOW, file_format=ICEBERG)
    for path in sorted(tmp_path.glob("_iceberg/topics/metadata/*.avro")):
        harm(path)
    code, problems, _ = verified(tmp_path)
    assert (code, list(problems)) == (1, ["_iceberg/topics"])
    assert " cannot be read: " in problems["_iceberg/topics"]


def test_a_table_whose_metadata_is_damaged_is_a_problem(tmp_path):
    write_snapshot(tmp_path, "monday", NOW, file_format=ICEBERG)
    for path in tmp_path.glob("_iceberg/topics/metadata/*.json"):
        path.write_text("{}")
    code, problems, _ = verified(tmp_path)
    assert (code, list(problems)) == (1, ["_iceberg/topics"])


def test_an_empty_catalog_stays_empty_when_it_is_looked_at_and_takes_an_export(tmp_path):
    write_snapshot(tmp_path, "monday", NOW, file_format=ICEBERG)
    shutil.rmtree(tmp_path / "_iceberg")
    (tmp_path / "_iceberg").mkdir()
    (empty := tmp_path / "_iceberg/catalog.db").touch()
    code, problems, _ = verified(tmp_path)
    assert (code, problems) == (1, {"_iceberg/catalog.db": "it cannot be read: no such table: iceberg_tables"})
    check_iceberg_tables(local_place(tmp_path))
    assert empty.stat().st_size == 0
    write_snapshot(tmp_path, "tuesday", NOW + HOUR, file_format=ICEBERG)
    assert verified(tmp_path) == (0, {}, "")


def test_no_namespace_is_created_in_a_catalog_that_is_looked_at(tmp_path):
    place = local_place(tmp_path)
    place.below(HOME).create_directory()
    catalog = open_catalog(place)
    catalog.create_namespace("theirs")
    check_iceberg_tables(place)
    assert catalog.list_namespaces() == [("theirs",)]
    catalog.close()


def test_a_snapshot_with_the_name_of_one_that_was_removed_by_hand_takes_its_place(tmp_path):
    """Its version names files that are gone; until then no other had the name."""
    write_snapshot(tmp_path, "monday", NOW, file_format=ICEBERG, tenants=[{"tenant": "a"}])
    for path in (tmp_path / "snapshot=monday", *tmp_path.glob("*/snapshot=monday")):
        shutil.rmtree(path)
    tenants = [{"tenant": "b"}, {"tenant": "c"}]
    write_snapshot(tmp_path, "monday", NOW + HOUR, file_format=ICEBERG, tenants=tenants)
    table = open_catalog(local_place(tmp_path)).load_table((NAMESPACE, "tenants"))
    assert sorted(table.scan().to_arrow()["tenant"].to_pylist()) == ["b", "c"]
    (version,) = table.metadata.snapshots
    assert version.summary["total-records"] == "2"
