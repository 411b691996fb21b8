"""A directory of snapshots: one partitioned table for each table, and a commit that is completed whatever is killed."""

import json
import os
import shutil
import signal

import duckdb
import pytest

from mledger.snapshot.exports.destination import Destination, local_place
from mledger.snapshot.exports.directory import COMMIT, UNFINISHED, SnapshotDirectory
from mledger.snapshot.exports.errors import ExportError
from mledger.snapshot.exports.manifest import MANIFEST
from mledger.snapshot.exports.steps import ExportPlan, Steps
from mledger.snapshot.sql.queries import QUERIES, open_snapshots
from mledger.snapshot.tables.row_builder import TABLES
from tests.support.cli import answer, mledger
from tests.support.snapshots.exports import all_rows, write_snapshot
from tests.support.snapshots.snapshot_pairs import HOUR, NOW, write_both
from tests.support.snapshots.spark import spark

__all__ = ["spark"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A directory with two snapshots, `before` and `now`."""
    directory = tmp_path_factory.mktemp("pair")
    write_both(directory)
    return directory


def counts(directory):
    """How many rows each snapshot has, by table."""
    return {
        name: {each: len(all_rows(directory / f"snapshot={each}")[name]) for each in ("before", "now")}
        for name in TABLES
    }


def as_format_1(directory, name):
    """Move a snapshot to the layout of format 1: its tables inside of its own directory."""
    own = directory / f"snapshot={name}"
    manifest = json.loads((own / MANIFEST).read_text())
    for table, record in manifest["tables"].items():
        os.rename(directory / table / f"snapshot={name}", own / table)
        for file in record["files"]:
            file["path"] = f"{table}/{file['path'].rpartition('/')[2]}"
    (own / MANIFEST).write_text(json.dumps(manifest | {"format": 1}))


def test_duckdb_reads_each_table_as_one_partitioned_table(pair):
    for name, expected in counts(pair).items():
        files = f"read_parquet('{pair}/{name}/**/*.parquet', hive_partitioning=true)"
        rows = duckdb.sql(f"select snapshot, count(*) from {files} group by snapshot").fetchall()
        assert dict(rows) == {each: count for each, count in expected.items() if count}
        assert duckdb.sql(f"describe from {files}").fetchall()[-1][0] == "snapshot"


@pytest.mark.spark
def test_spark_registers_each_table_with_its_partitions(pair, spark):
    for name, expected in counts(pair).items():
        columns = ", ".join(f"`{column.name}` {column.sql_type}" for column in TABLES[name].columns)
        spark.sql(
            f"create table lake_{name} ({columns}, snapshot string) using parquet partitioned by (snapshot) "
            f"location 'file://{pair}/{name}'"
        )
        spark.sql(f"msck repair table lake_{name}")
        partitions = [row[0] for row in spark.sql(f"show partitions lake_{name}").collect()]
        assert sorted(partitions) == ["snapshot=before", "snapshot=now"]
        found = {each: spark.table(f"lake_{name}").where(f"snapshot = '{each}'").count() for each in expected}
        assert found == expected
        spark.sql(f"drop table lake_{name}")


def test_a_directory_of_format_1_is_read_verified_compared_and_removed_like_any_other(tmp_path):
    write_both(tmp_path)
    rows = all_rows(tmp_path / "snapshot=before")
    as_format_1(tmp_path, "before")
    assert all_rows(tmp_path / "snapshot=before") == rows
    assert answer("snapshot", "verify", tmp_path / "snapshot=before")["whole"]
    assert [each["name"] for each in answer("snapshot", "list", tmp_path)] == ["before", "now"]
    with open_snapshots(str(tmp_path), str(tmp_path / "snapshot=before")) as asked:
        assert {name: asked.ask(query).num_rows for name, query in QUERIES.items()}
    directory = SnapshotDirectory(tmp_path)
    with directory.writing():
        directory.remove("before")
    assert [each["name"] for each in answer("snapshot", "list", tmp_path)] == ["now"]
    assert answer("snapshot", "verify", tmp_path)["whole"]


def test_a_removal_leaves_the_partitions_of_other_programs_tables(tmp_path):
    write_both(tmp_path)
    own = tmp_path / "sales" / "snapshot=before" / "part-0.parquet"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"of somebody else")
    with (directory := SnapshotDirectory(tmp_path)).writing():
        directory.remove("before")
    assert own.read_bytes() == b"of somebody else"
    assert [path.parent.name for path in tmp_path.glob("*/snapshot=before")] == ["sales"]


def test_a_removal_that_an_earlier_release_started_is_completed(tmp_path):
    write_both(tmp_path)
    (tmp_path / "_removed").mkdir()
    (tmp_path / "_removed" / "before").touch()
    with SnapshotDirectory(tmp_path).writing():
        pass
    assert not list(tmp_path.rglob("snapshot=before"))
    assert not (tmp_path / "_removed").exists()


def test_what_a_removal_killed_at_its_end_leaves_is_removed_by_the_next_export(tmp_path):
    (tmp_path / "_removed").mkdir()
    with SnapshotDirectory(tmp_path).writing():
        pass
    assert not (tmp_path / "_removed").exists()


def test_duckdb_reads_a_table_while_a_removed_snapshot_s_files_are_deleted(tmp_path, monkeypatch):
    """It looks into directories whose names begin with a dot, too."""
    write_both(tmp_path)
    seen, remove = [], Destination.remove

    def looked_at(place):
        left = [each for each in tmp_path.rglob("*.parquet") if "snapshot=before" in str(each)]
        if left and not (tmp_path / "topics" / "snapshot=before").exists():
            files = f"read_parquet('{tmp_path}/topics/**/*.parquet', hive_partitioning=true)"
            seen.append(duckdb.sql(f"select distinct snapshot from {files}").fetchall())
        remove(place)

    monkeypatch.setattr(Destination, "remove", looked_at)
    directory = SnapshotDirectory(tmp_path)
    with directory.writing():
        directory.remove("before")
    assert [("now",)] in seen
    assert not list(tmp_path.rglob("snapshot=before"))


def test_a_partition_of_the_snapshots_name_that_no_export_wrote_stays(tmp_path):
    own = tmp_path / "topics" / "snapshot=one" / "part-0.parquet"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"of somebody else")
    with pytest.raises(ExportError, match=r"topics/snapshot=one is there already.*another --name"):
        write_snapshot(tmp_path, "one", NOW)
    assert own.read_bytes() == b"of somebody else"


def test_a_manifest_without_its_tables_says_what_to_move(tmp_path):
    shutil.copytree(write_snapshot(tmp_path / "here", "one", NOW), tmp_path / "there")
    done = mledger("snapshot", "verify", tmp_path / "there")
    assert done.code == 1
    assert "move or copy all of the directory of snapshots" in done.err


@pytest.mark.parametrize("tables", [0, 1, 5])
def test_a_commit_cut_off_between_its_renames_is_completed_by_the_next_export(tmp_path, tables):
    write_snapshot(tmp_path / "whole", "one", NOW)
    child = os.fork()
    if child == 0:
        renames, rename = [], SnapshotDirectory._rename

        def dying(self, name, wanted):
            names = sorted({path.partition("/")[0] for path in wanted})
            rename(self, name, {path: size for path, size in wanted.items() if path.split("/")[0] in names[:tables]})
            os.kill(os.getpid(), signal.SIGKILL)

        SnapshotDirectory._rename = dying
        write_snapshot(tmp_path / "cut", "one", NOW)
        os._exit(len(renames))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert answer("snapshot", "list", tmp_path / "cut") == []
    assert len(list((tmp_path / "cut").glob("*/snapshot=*"))) == tables
    with SnapshotDirectory(tmp_path / "cut").writing():
        pass
    assert answer("snapshot", "verify", tmp_path / "cut")["whole"]
    assert all_rows(tmp_path / "cut") == all_rows(tmp_path / "whole")
    assert sorted(path.name for path in (tmp_path / "cut").glob("[!.]*")) == sorted([*TABLES, "snapshot=one"])


def test_a_manifest_that_was_cut_off_is_not_in_the_snapshot_that_the_next_export_completes(tmp_path, monkeypatch):
    def cut_off(place, name, data):
        if name != MANIFEST:
            write(place, name, data)
            return
        place.create_directory()
        (place.local / f".{MANIFEST}.17.tmp").write_bytes(data[:10])
        raise KeyboardInterrupt

    write = Destination.write
    with monkeypatch.context() as patched:
        patched.setattr(Destination, "write", cut_off)
        with pytest.raises(KeyboardInterrupt):
            write_snapshot(tmp_path, "one", NOW)
    with SnapshotDirectory(tmp_path).writing():
        pass
    assert answer("snapshot", "verify", tmp_path)["whole"]


def test_no_partition_takes_its_place_before_the_files_of_all_are_gathered(tmp_path, monkeypatch):
    done, move = [], Destination.move

    def noted(self, name, to, new_name):
        done.append("partition renamed" if new_name == "snapshot=one" else "file gathered")
        move(self, name, to, new_name)

    monkeypatch.setattr(Destination, "move", noted)
    write_snapshot(tmp_path, "one", NOW)
    assert set(done) == {"partition renamed", "file gathered"}
    assert done == sorted(done)


def test_an_export_cut_off_while_it_tidies_up_is_not_taken_up_again(tmp_path, monkeypatch):
    """Which of its files go first is up to the file system."""
    plan = ExportPlan("now", "fingerprint", 1, None, 1, (), ({"kinds": []},))
    Steps(SnapshotDirectory(tmp_path).unfinished("now")).begin(plan)
    remove = Destination.remove

    def cut_off(place):
        if place.path.endswith(f"{UNFINISHED}/now"):
            place.remove_file(COMMIT)
            raise KeyboardInterrupt
        remove(place)

    with monkeypatch.context() as patched:
        patched.setattr(Destination, "remove", cut_off)
        with pytest.raises(KeyboardInterrupt):
            write_snapshot(tmp_path, "now", NOW)
    directory = SnapshotDirectory(tmp_path)
    assert [each.name for each in directory.snapshots()] == ["now"]
    with directory.writing():
        assert directory.unfinished_names() == []


def test_a_snapshot_that_is_removed_while_all_are_listed_is_left_out(tmp_path, monkeypatch):
    for name in ("before", "now"):
        write_snapshot(tmp_path, name, NOW)
    holds = Destination.holds

    def removed_afterwards(place, name):
        found = holds(place, name)
        if name == MANIFEST and place.path.endswith("snapshot=before"):
            place.remove_file(MANIFEST)
        return found

    monkeypatch.setattr(Destination, "holds", removed_afterwards)
    assert [each.name for each in SnapshotDirectory(tmp_path).snapshots()] == ["now"]


def test_files_that_no_record_names_do_not_enter_a_snapshot(tmp_path):
    directory = SnapshotDirectory(tmp_path)
    stray = directory.unfinished("one").below("tables", "topics")
    stray.write("part-late.parquet", b"late")
    write_snapshot(tmp_path, "one", NOW)
    assert answer("snapshot", "verify", tmp_path)["whole"]
    assert not list(tmp_path.rglob("part-late.parquet"))


def test_a_file_that_is_missing_stops_the_commit_before_anything_is_visible(tmp_path, monkeypatch):
    monkeypatch.setattr("mledger.snapshot.exports.directory.TABLES_AT", "elsewhere")
    with pytest.raises(ExportError, match="that all workers reach at the same path"):
        write_snapshot(tmp_path, "one", NOW)
    assert local_place(tmp_path).names() == ["_unfinished"]


@pytest.fixture
def damaged(tmp_path):
    """A directory with three snapshots, an hour apart, of which the manifest of `two` is cut off."""
    for hours, name in enumerate(("one", "two", "three")):
        write_snapshot(tmp_path, name, NOW + hours * HOUR, topics=[{"topic": name, "cursors": 0}])
    manifest = tmp_path / "snapshot=two" / MANIFEST
    manifest.write_bytes(manifest.read_bytes()[:100])
    return tmp_path


def test_a_damaged_manifest_is_named_and_the_other_snapshots_are_listed(damaged):
    listed = mledger("snapshot", "list", damaged)
    assert listed.code == 0
    assert listed.err.count(f"{damaged}/snapshot=two/manifest.json is not the manifest") == 1
    assert "1 damaged" in listed.out
    assert [each["name"] for each in answer("snapshot", "list", damaged)] == ["one", "three"]


def test_a_query_of_a_directory_goes_on_beside_a_damaged_manifest(damaged):
    asked = mledger("snapshot", "ask", damaged, "topics_without_subscriptions", "--output", "json")
    assert [each["topic"] for each in asked.json] == ["three"]
    assert "snapshot=two/manifest.json" in asked.err


def test_a_removal_goes_on_beside_a_damaged_manifest(damaged):
    directory = SnapshotDirectory(damaged)
    with directory.writing():
        directory.remove("one")
    assert [each["name"] for each in answer("snapshot", "list", damaged)] == ["three"]
    assert (damaged / "snapshot=two" / MANIFEST).exists()


def test_a_copied_manifest_is_not_a_second_snapshot_of_the_name(tmp_path):
    write_snapshot(tmp_path, "one", NOW)
    shutil.copytree(tmp_path / "snapshot=one", tmp_path / "snapshot=one.bak")
    listed = mledger("snapshot", "list", tmp_path, "--output", "json")
    assert [each["name"] for each in listed.json] == ["one"]
    assert "snapshot=one.bak/manifest.json is of the snapshot one" in listed.err
