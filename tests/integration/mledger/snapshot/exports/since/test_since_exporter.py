"""`mledger snapshot export --since`: an older snapshot and the logs since equal a full export, row by row."""

import os
import random
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from mledger.snapshot.exports import recent_parts
from mledger.snapshot.exports.directory import SnapshotDirectory, snapshot_directory
from mledger.snapshot.exports.errors import ExportError, SnapshotDoesNotFit, SnapshotExists, SnapshotNotFound
from mledger.snapshot.exports.exporter import ExportRequest, export
from mledger.snapshot.exports.manifest import DELTA, PARQUET
from mledger.snapshot.exports.since import part_plan
from mledger.snapshot.exports.since.since_exporter import export_since
from mledger.snapshot.exports.verification import verify_snapshot
from mledger.snapshot.source.splits import RECENT_MS
from mledger.snapshot.tables.row_builder import TABLES
from mledger.snapshot.zookeeper_files.errors import LogDoesNotFit, MissingLog
from tests.support.cli import answer, mledger, ok
from tests.support.snapshots import varied_cluster
from tests.support.snapshots.cluster_history import CURSORS, LEDGERS, PARTITIONED_IN, RECORDS, TOPICS, ClusterHistory
from tests.support.snapshots.exports import all_rows, write_snapshot
from tests.support.snapshots.hdfs import hdfs
from tests.support.snapshots.s3 import BUCKET, s3, s3_server
from tests.support.zookeeper.zookeeper_files import EPHEMERAL
from tests.support.zookeeper.zookeeper_tree import OPEN

__all__ = ["hdfs", "s3", "s3_server"]

HOUR_MS = 3_600_000
SEEDS = st.integers(0, 1 << 32)
SCHEMA = varied_cluster.nodes()["/schemas/golden/parts/n"]


class Nights:
    """A server whose files are exported again and again into one directory."""

    def __init__(self, directory, seed=1, chroot="", **options):
        self.files = directory / "server"
        self.to = SnapshotDirectory(directory / "snapshots")
        self.file_format = PARQUET
        self.server = ClusterHistory(random.Random(seed), chroot)
        self.options = {"metadata": f"file://{self.files}", "chroot": chroot, **options}

    def full(self, name):
        """A full export; its rows."""
        self.server.write(self.files)
        return self._exported(export, ExportRequest(self.options, name, file_format=self.file_format, workers=1))

    def since(self, previous, name, **files):
        """An export that continues a snapshot; its rows."""
        self.server.write(self.files, **files)
        return self._exported(
            export_since, ExportRequest(self.options, name, file_format=self.file_format, since=previous)
        )

    def _exported(self, run, asked):
        with self.to.writing():
            manifest = run(asked, self.to).manifest
        assert verify_snapshot(self.to.there, manifest) == ()
        assert manifest.zxid == self.server.zxid
        return all_rows(self.to.place(manifest.name).text)


@settings(max_examples=12, deadline=None)
@given(SEEDS, st.sampled_from(["", "/pulsar"]), st.sampled_from([0, 1, 5, 40]))
def test_it_equals_a_full_export_row_by_row_night_after_night(seed, chroot, changes):
    with tempfile.TemporaryDirectory() as directory:
        nights = Nights(Path(directory), seed, chroot)
        nights.server.steps(60)
        nights.full("0")
        for night in ("1", "2"):
            nights.server.steps(changes)
            nights.server.snapshot(most_between=min(changes, 1))
            nights.server.steps(changes)
            continued = nights.since("latest", night)
            assert continued == nights.full(f"full-{night}")
            nights.to.remove(f"full-{night}")


@pytest.fixture
def nights(tmp_path):
    """A server with topics, cursors, ledgers and a bookie, and its full export `monday`."""
    found = Nights(tmp_path)
    topic, cursor, ledger = TOPICS[0], CURSORS[0], LEDGERS[0]
    found.server.do(*(create(path) for path in (topic, cursor, ledger, LEDGERS[1])))
    found.server.do(create("/ledgers/available/127.0.0.1:1", EPHEMERAL), create("/ledgers/cookies/127.0.0.1:1"))
    found.full("monday")
    return found


def create(path, kind=None):
    return ("create", path, RECORDS[path][0], OPEN, kind, 1)


def changed(path):
    return ("set", path, RECORDS[path][1], 1)


def files_of(nights, name, table):
    return {Path(file.path).name for file in nights.to.find(name).tables[table].files}


def test_it_needs_no_snapshot_file_of_zookeeper_and_no_older_log(nights):
    nights.server.do(changed(CURSORS[0]), ("delete", LEDGERS[0]))
    continued = nights.since("monday", "tuesday", snapshots=False, logs_from=nights.to.find("monday").zxid + 1)
    assert continued == nights.full("full")


def test_files_without_changes_are_the_same_files_under_a_second_name(nights):
    nights.server.do(changed(CURSORS[0]))
    nights.since("monday", "tuesday")
    assert files_of(nights, "tuesday", "ledgers") == files_of(nights, "monday", "ledgers")
    assert files_of(nights, "tuesday", "cursors").isdisjoint(files_of(nights, "monday", "cursors"))
    (name,) = files_of(nights, "monday", "ledgers")
    here, there = (nights.to.there.local / f"ledgers/snapshot={day}/{name}" for day in ("monday", "tuesday"))
    assert here.samefile(there)


def test_what_had_changed_the_day_before_a_full_export_is_in_files_of_its_own(nights, monkeypatch):
    for module, limit in ((recent_parts, "FEW_ROWS"), (part_plan, "FEW_ROWS"), (part_plan, "GROWTH")):
        monkeypatch.setattr(module, limit, 0)
    nights.server.time += RECENT_MS + HOUR_MS
    nights.server.do(("set", LEDGERS[0], RECORDS[LEDGERS[0]][1], 1))
    nights.full("tuesday")
    nights.server.do(("set", LEDGERS[0], RECORDS[LEDGERS[0]][0], 2))
    continued = nights.since("tuesday", "wednesday")
    for table in ("ledgers", "ensembles"):
        before, after = files_of(nights, "tuesday", table), files_of(nights, "wednesday", table)
        assert len(before) == 2
        assert {name for name in before if not name.endswith("-recent.parquet")} == before & after
    assert continued == nights.full("full")


def test_it_outlives_the_snapshot_that_it_continued(nights):
    rows = nights.since("monday", "tuesday")
    nights.to.remove("monday")
    assert all_rows(nights.to.place("tuesday").text) == rows
    assert verify_snapshot(nights.to.there, nights.to.find("tuesday")) == ()


def test_small_files_do_not_become_many(nights):
    for night in range(4):
        nights.server.do(("set", CURSORS[0], RECORDS[CURSORS[0]][night % 2], 1 + night))
        nights.since("latest", f"night-{night}")
    assert len(files_of(nights, "night-3", "cursors")) == 1


def test_a_new_cursor_counts_at_its_topic_whose_other_columns_stay(nights):
    before = all_rows(nights.to.place("monday").text)["topics"]
    nights.server.do(create(CURSORS[1]))
    after = nights.since("monday", "tuesday")["topics"]
    assert [row["cursors"] for row in before] == [1]
    assert after == [row | {"cursors": 2} for row in before]


def test_cursors_whose_nodes_decode_to_one_name_are_told_apart(nights):
    twins = [f"{TOPICS[0]}/{name}" for name in ("a+b", "a%20b")]
    nights.server.do(*(("create", path, RECORDS[CURSORS[0]][0], OPEN, None, 1) for path in twins))
    nights.full("with-twins")
    nights.server.do(("set", twins[1], RECORDS[CURSORS[0]][1], 1))
    continued = nights.since("with-twins", "tuesday")
    assert {"a b", "a%20b"} <= {row["cursor"] for row in continued["cursors"]}
    assert continued == nights.full("full")


def twins(folder, *names):
    return [f"{folder}/{name}" for name in names]


@pytest.mark.parametrize(
    ("table", "pair", "data", "change"),
    [
        ("schemas", twins("/schemas/t/n", "a+b", "a%20b"), SCHEMA, ("set", SCHEMA, 1)),
        ("partitioned_topics", twins(PARTITIONED_IN, "a+b", "a%20b"), b'{"partitions":1}', ("delete",)),
        ("cursors", twins(TOPICS[0], "a%2520b", "a%20b"), RECORDS[CURSORS[0]][0], None),
    ],
)
def test_nodes_that_share_a_name_are_read_in_full(nights, table, pair, data, change):
    """Each of them changes once: one is written, one deleted, one created."""
    nights.server.do(*(("create", path, b"", OPEN, None, 1) for path in ("/schemas", "/schemas/t", "/schemas/t/n")))
    creations = [("create", path, data, OPEN, None, 1) for path in pair]
    nights.server.do(*creations[: 2 if change else 1])
    nights.full("before")
    nights.server.do((change[0], pair[1], *change[1:]) if change else creations[1])
    nights.server.write(nights.files)
    why = []
    with nights.to.writing():
        asked = ExportRequest(nights.options, "tuesday", since="before", workers=1)
        done = export_since(asked, nights.to, on_full=why.append)
    assert [each.partition(" that another")[0] for each in why] == [f"{pair[1]} has a name in the table {table}"]
    assert done.manifest.since is None
    assert all_rows(nights.to.place("tuesday").text) == nights.full("full")


def test_a_bookie_that_goes_away_shows_its_cookie(nights):
    nights.server.do(("delete", "/ledgers/available/127.0.0.1:1"))
    continued = nights.since("monday", "tuesday")
    assert [row["state"] for row in continued["bookies"]] == ["away"]
    assert continued == nights.full("full")


@pytest.mark.parametrize("option", [{"tenant": "t"}, {"topic": "persistent://t/n/a"}])
def test_exports_of_a_part_continue_with_the_same_options(tmp_path, option):
    nights = Nights(tmp_path, 5, **option)
    nights.server.steps(60)
    nights.full("monday")
    nights.server.steps(30)
    assert nights.since("monday", "tuesday") == nights.full("full")


def test_the_same_point_is_not_written_twice(nights):
    nights.server.do(changed(CURSORS[0]))
    nights.full("tuesday")
    asked = ExportRequest(nights.options, "tuesday", since="monday")
    assert export_since(asked, nights.to).already


def test_another_point_under_the_same_name_is_refused(nights):
    nights.server.do(changed(CURSORS[0]))
    with pytest.raises(SnapshotExists, match="with other contents"):
        nights.since("monday", "monday")


def test_the_manifest_names_what_it_continues(nights):
    nights.since("latest", "tuesday")
    assert (nights.to.find("monday").since, nights.to.find("tuesday").since) == (None, "monday")


def test_delta_tables_get_a_commit_as_from_other_exports(tmp_path):
    nights = Nights(tmp_path)
    nights.file_format = DELTA
    nights.server.do(create(TOPICS[0]), create(CURSORS[0]))
    nights.full("monday")
    nights.server.do(changed(CURSORS[0]), create(CURSORS[1]))
    rows = nights.since("monday", "tuesday")
    for table in TABLES:
        delta = DeltaTable(nights.to.there.local / table)
        assert delta.version() == nights.to.find("tuesday").tables[table].version == 1
        assert delta.to_pyarrow_table().num_rows == len(rows[table])


def files_that_stay_are_copied(tmp_path, uri):
    """Continue a snapshot at a URI: the next one equals a full export, and has the files of tables without changes."""
    nights = Nights(tmp_path)
    nights.to = snapshot_directory(uri)
    nights.server.do(create(TOPICS[0]), create(CURSORS[0]), create(LEDGERS[0]))
    nights.full("monday")
    nights.server.do(changed(CURSORS[0]))
    assert nights.since("monday", "tuesday") == nights.full("full")
    assert files_of(nights, "tuesday", "ledgers") == files_of(nights, "monday", "ledgers")


def test_on_an_object_store_files_are_copied_there(s3, tmp_path):
    files_that_stay_are_copied(tmp_path, f"s3://{BUCKET}/continued")


@pytest.mark.interop
@pytest.mark.slow
def test_on_hdfs_files_are_copied_there(hdfs, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files_that_stay_are_copied(tmp_path, f"{hdfs}/continued")


def test_on_a_file_system_without_links_files_are_copied(nights, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    rows = nights.since("monday", "tuesday")
    nights.to.remove("monday")
    assert all_rows(nights.to.place("tuesday").text) == rows


def test_purged_logs_are_named_with_what_is_needed(nights):
    zxid = nights.to.find("monday").zxid
    nights.server.do(changed(CURSORS[0]), changed(LEDGERS[0]))
    needed = f"begin at zxid {zxid + 2:#x}, but the transactions after {zxid:#x} are needed.*export fully"
    with pytest.raises(MissingLog, match=needed):
        nights.since("monday", "tuesday", logs_from=zxid + 2)
    assert nights.to.find("tuesday") is None


def test_logs_of_another_history_are_refused(nights):
    other = ClusterHistory(random.Random(2))
    other.do(*(create(TOPICS[0]) for _ in range(1)), create(CURSORS[1]))
    while other.zxid <= nights.server.zxid:
        other.do(("set", CURSORS[1], b"", 1))
    zxid, nights.server = nights.server.zxid, other
    with pytest.raises(LogDoesNotFit, match="of different clusters or histories"):
        nights.since("monday", "tuesday", logs_from=zxid + 1)


def another_cluster():
    """A cluster with the nodes of the fixture's, by transactions of the same numbers at other times."""
    other = ClusterHistory(random.Random(1))
    other.time += 7
    other.do(*(create(path) for path in (TOPICS[0], CURSORS[0], LEDGERS[0], LEDGERS[1])))
    other.do(create("/ledgers/available/127.0.0.1:1", EPHEMERAL), create("/ledgers/cookies/127.0.0.1:1"))
    return other


def test_a_snapshot_of_another_cluster_is_refused(nights):
    zxid = nights.server.zxid
    nights.server = another_cluster()
    assert nights.server.zxid == zxid
    nights.server.do(changed(CURSORS[0]))
    with pytest.raises(LogDoesNotFit, match=f"the transaction {zxid:#x} of .* of different clusters"):
        nights.since("monday", "tuesday")


def test_latest_is_of_the_same_place_where_clusters_share_a_directory(nights, tmp_path):
    here = nights.server, nights.files, nights.options
    nights.server, nights.files = another_cluster(), tmp_path / "other"
    nights.options = nights.options | {"metadata": f"file://{nights.files}"}
    nights.server.do(changed(LEDGERS[0]))
    nights.full("of-the-other")
    nights.server, nights.files, nights.options = here
    nights.server.do(changed(CURSORS[0]), changed(LEDGERS[1]))
    nights.since("latest", "tuesday")
    assert nights.to.find("tuesday").since == "monday"


def test_files_that_were_copied_elsewhere_continue_a_snapshot(nights, tmp_path):
    nights.files = tmp_path / "copy"
    nights.options |= {"metadata": f"file://{nights.files}"}
    nights.server.do(changed(CURSORS[0]))
    assert nights.since("latest", "tuesday") == nights.full("full")


def test_files_elsewhere_need_the_last_transaction_of_the_snapshot(nights, tmp_path):
    zxid = nights.server.zxid
    nights.files = tmp_path / "elsewhere"
    nights.options |= {"metadata": f"file://{nights.files}"}
    nights.server.do(changed(CURSORS[0]))
    with pytest.raises(LogDoesNotFit, match=f"monday was read from file:.*{zxid:#x}.* another cluster"):
        nights.since("monday", "tuesday", logs_from=zxid + 1)


def test_a_damaged_file_of_the_older_snapshot_is_not_carried_on(nights):
    (name,) = files_of(nights, "monday", "cursors")
    path = nights.to.there.local / f"cursors/snapshot=monday/{name}"
    path.write_bytes(path.read_bytes()[:-5] + b"12345")
    nights.server.do(changed(CURSORS[0]))
    with pytest.raises(ExportError, match="cursors/snapshot=monday/"):
        nights.since("monday", "tuesday")


def test_a_snapshot_that_is_not_there_is_refused(nights):
    with pytest.raises(SnapshotNotFound, match="no complete snapshot sunday"):
        nights.since("sunday", "tuesday")


def test_a_snapshot_with_other_options_is_refused(nights):
    nights.options |= {"tenant": "t"}
    with pytest.raises(SnapshotDoesNotFit, match=r"monday cannot be continued: .*other options \(tenant\)"):
        nights.since("monday", "tuesday")


def test_latest_passes_over_what_cannot_be_continued(nights):
    write_snapshot(nights.to.there.local, "live", datetime(2030, 1, 1, tzinfo=UTC))
    nights.since("latest", "tuesday")
    assert nights.to.find("tuesday").since == "monday"
    with pytest.raises(SnapshotDoesNotFit, match="of a running store"):
        nights.since("live", "wednesday")


def test_latest_is_the_newest_before_the_requested_point(nights):
    point = nights.server.zxid + 1
    nights.server.do(changed(CURSORS[0]), changed(LEDGERS[0]))
    nights.full("wednesday")
    asked = ExportRequest({**nights.options, "zxid": str(point)}, "tuesday", since="latest")
    assert export_since(asked, nights.to).manifest.since == "monday"


def export_command(nights, *arguments):
    return "--metadata", nights.options["metadata"], "snapshot", "export", nights.to.there.local, *arguments


def test_the_command_continues_and_its_result_serves_the_other_commands(nights):
    nights.server.do(create(CURSORS[1]))
    nights.server.write(nights.files)
    done = answer(*export_command(nights, "--since", "latest", "--name", "tuesday", "--keep", 2, "--yes"))
    assert done["name"] == "tuesday"
    place = nights.to.there.local
    assert answer("snapshot", "verify", place)["whole"]
    diff = answer("snapshot", "diff", place / "snapshot=monday", place / "snapshot=tuesday")
    assert len(diff["cursors_appeared"]) == 1
    ok("snapshot", "ask", place, "bookie_load")


def test_the_command_removes_no_snapshot_of_another_cluster(nights, tmp_path):
    other = Nights(tmp_path / "other")
    other.server.do(create(TOPICS[0]))
    other.server.write(other.files)
    other.to = nights.to
    for name in ("one", "two"):
        done = answer(*export_command(other, "--name", name, "--keep", 1, "--yes"))
    assert [each["name"] for each in done["removed"]] == ["one"]
    assert {each.name for each in nights.to.snapshots()} == {"monday", "two"}


def test_the_command_refuses_a_running_store(nights, tmp_path):
    done = mledger("--metadata", f"rocksdb:{tmp_path}/db", *export_command(nights)[2:], "--since", "latest")
    assert done.code == 2
    assert "metadata names a running store" in done.err


def test_the_command_refuses_spark(nights):
    done = mledger(*export_command(nights, "--since", "latest", "--spark"))
    assert done.code == 2
    assert "leave out --spark" in done.err


def test_the_command_reports_purged_logs(nights):
    nights.server.do(changed(CURSORS[0]), changed(LEDGERS[0]))
    nights.server.write(nights.files, logs_from=nights.server.zxid)
    done = mledger(*export_command(nights, "--since", "monday"))
    assert done.code == 1
    assert "export fully" in done.err
