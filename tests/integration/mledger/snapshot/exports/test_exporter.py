"""`mledger snapshot export|list|verify` on a real cluster: whole or not at all, retried, killed at any time."""

import json
import random
import signal

import psutil
import pytest

from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from mledger.snapshot.exports.directory import SnapshotDirectory
from mledger.snapshot.exports.exporter import ExportRequest, begin, export, shares_of, steps_of_shares
from mledger.snapshot.exports.workers import write_step
from tests.support.aio import HANG_S
from tests.support.cli import answer, mledger, ok
from tests.support.snapshots import tables
from tests.support.snapshots.cluster_history import ClusterHistory
from tests.support.snapshots.exports import (
    all_rows,
    processes_below,
    started_export,
    steps_done,
    wait_for,
    wait_until_steps,
    write_varied_cluster,
)

SHARES = ("-D", "partitions=4")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The URL of a cluster, and the option that names the chroot in the server's files."""
    directory = tmp_path_factory.mktemp("exported")
    with ZooKeeperServer.start(directory, sync=False) as server:
        write_varied_cluster(f"{server.url}/pulsar")
        yield f"{server.url}/pulsar", f"file://{directory}/data"


def workers_of(process):
    return processes_below(process, "spawn_main")


@pytest.mark.parametrize("workers", [1, 2])
def test_an_export_holds_all_rows_of_all_tables(cluster, tmp_path, workers):
    url, _ = cluster
    done = answer("snapshot", "export", tmp_path, "--workers", workers, *SHARES, url=url)
    read = tables.read({"metadata": url})
    assert all_rows(tmp_path) == read
    assert {each["table"]: each["rows"] for each in done["tables"]} == {name: len(rows) for name, rows in read.items()}
    assert answer("snapshot", "verify", tmp_path)["whole"]


def test_the_files_of_a_server_give_the_same_as_the_server_with_their_zxid(cluster, tmp_path):
    url, files = cluster
    done = answer("--metadata", files, "snapshot", "export", tmp_path, "-D", "chroot=/pulsar")
    assert all_rows(tmp_path) == tables.read({"metadata": url})
    assert done["zxid"].startswith("0x")
    assert done["name"].endswith(f"zxid{done['zxid'][2:]}")


def test_the_same_point_of_files_is_not_exported_twice(cluster, tmp_path):
    _, files = cluster
    export = ("--metadata", files, "snapshot", "export", tmp_path, "-D", "chroot=/pulsar")
    first, second = answer(*export), answer(*export)
    assert (first["already_there"], second["already_there"]) == (False, True)
    assert first["snapshot"] == second["snapshot"]
    assert len(answer("snapshot", "list", tmp_path)) == 1


def test_a_snapshot_of_something_else_with_the_same_name_is_refused(cluster, tmp_path):
    url, _ = cluster
    ok("snapshot", "export", tmp_path, "--name", "monday", url=url)
    assert answer("snapshot", "export", tmp_path, "--name", "monday", url=url)["already_there"]
    done = mledger("snapshot", "export", tmp_path, "--name", "monday", "-D", "tenant=golden", url=url)
    assert done.code == 4
    assert "with other contents" in done.err


def test_an_empty_table_has_its_columns(cluster, tmp_path):
    url, _ = cluster
    ok("snapshot", "export", tmp_path, "-D", "namespace=nobody/here", url=url)
    assert all_rows(tmp_path)["topics"] == []


def test_a_killed_export_leaves_the_previous_snapshot_and_is_continued(cluster, tmp_path):
    url, _ = cluster
    before = answer("snapshot", "export", tmp_path, url=url)
    with started_export(url, tmp_path, "--workers", "2", *SHARES, "-D", "rate=30") as process:
        wait_until_steps(process, tmp_path)
        workers = wait_for(lambda: workers_of(process))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert psutil.wait_procs(workers, timeout=HANG_S)[1] == []
    kept = steps_done(tmp_path)
    assert [each["name"] for each in answer("snapshot", "list", tmp_path)] == [before["name"]]
    assert answer("snapshot", "verify", tmp_path)["whole"]

    files = {path: path.stat().st_ino for path in tmp_path.glob("_unfinished/*/tables/*/part-*")}
    done = answer("snapshot", "export", tmp_path, *SHARES, url=url)
    assert done["steps_kept"] == len(kept) > 0
    assert all_rows(done["snapshot"]) == tables.read({"metadata": url})
    assert answer("snapshot", "verify", done["snapshot"])["whole"]
    inodes = {path.stat().st_ino for path in tmp_path.glob(f"*/snapshot={done['name']}/*")}
    assert inodes & set(files.values())
    assert not (tmp_path / "_unfinished").exists()


def test_a_killed_worker_ends_the_export_in_one_line_and_the_retry_completes(cluster, tmp_path):
    url, _ = cluster
    before = answer("snapshot", "export", tmp_path, url=url)
    with started_export(url, tmp_path, "--workers", "2", *SHARES, "-D", "rate=30") as process:
        wait_until_steps(process, tmp_path)
        wait_for(lambda: workers_of(process))[0].kill()
        _, said = process.communicate(timeout=HANG_S)
    assert process.returncode == 1
    assert said.splitlines() == [
        "mledger: a worker process of the export was killed: run the command again, finished steps are kept "
        "(if it ran out of memory, use --workers 1)"
    ]
    assert [each["name"] for each in answer("snapshot", "list", tmp_path)] == [before["name"]]
    done = answer("snapshot", "export", tmp_path, *SHARES, url=url)
    assert done["steps_kept"] > 0
    assert all_rows(done["snapshot"]) == tables.read({"metadata": url})


def test_zookeeper_killed_during_an_export_leaves_the_previous_snapshot_and_the_retry_completes(
    zookeeper_server, tmp_path
):
    url = f"{zookeeper_server.url}/pulsar"
    write_varied_cluster(url)
    expected = tables.read({"metadata": url})
    before = answer("snapshot", "export", tmp_path, url=url)
    with started_export(url, tmp_path, "--workers", "1", *SHARES, "-D", "rate=30") as process:
        wait_until_steps(process, tmp_path)
        zookeeper_server.kill()
        _, said = process.communicate(timeout=HANG_S)
    assert process.returncode == 5, said
    assert len(said.splitlines()) == 1
    assert [each["name"] for each in answer("snapshot", "list", tmp_path)] == [before["name"]]
    zookeeper_server.restart()
    done = answer("snapshot", "export", tmp_path, *SHARES, url=url)
    assert done["steps_kept"] > 0
    # clients that are gone registered the bookies, as in the golden trees: these nodes stay
    assert all_rows(done["snapshot"]) == expected


def test_an_export_of_files_resumes_after_the_server_has_written_another_snapshot_file(tmp_path):
    server = ClusterHistory(random.Random(1))
    server.steps(200)
    server.write(tmp_path / "server")
    asked = ExportRequest({"metadata": f"file://{tmp_path}/server", "partitions": "2"}, workers=1)
    to = SnapshotDirectory(tmp_path / "snapshots")
    with to.writing():
        begun = begin(asked, asked.read_options(), to, steps_of_shares)
        index, share = shares_of(begun)[0]
        write_step(asked.read_options(), share, begun.steps.place, index, None)
    server.snapshot()
    server.write(tmp_path / "server")
    with to.writing():
        done = export(asked, to)
    assert done.resumed == 1
    assert all_rows(to.place(done.manifest.name).text) == tables.read(asked.options)


def begun_and_left(asked, to):
    """Begin the export of files and do a step of it, as one that is killed then. Returns its name."""
    with to.writing():
        begun = begin(asked, asked.read_options(), to, steps_of_shares)
        index, share = shares_of(begun)[0]
        write_step(asked.read_options(), share, begun.steps.place, index, None)
    return begun.plan.name


def test_the_next_export_removes_an_unfinished_one_of_an_earlier_point(tmp_path):
    server = ClusterHistory(random.Random(1))
    server.steps(50)
    server.write(tmp_path / "server")
    asked = ExportRequest({"metadata": f"file://{tmp_path}/server"}, workers=1)
    to = SnapshotDirectory(tmp_path / "snapshots")
    left = begun_and_left(asked, to)
    server.steps(50)
    server.write(tmp_path / "server")
    with to.writing():
        done = export(asked, to)
    assert done.manifest.name != left
    assert to.unfinished_names() == []


def test_an_export_without_a_name_does_not_take_up_one_that_was_given_a_name(cluster, tmp_path):
    url, _ = cluster
    asked = ExportRequest({"metadata": url}, name="nightly", workers=1)
    to = SnapshotDirectory(tmp_path)
    assert begun_and_left(asked, to) == "nightly"
    assert answer("snapshot", "export", tmp_path, url=url)["name"] != "nightly"
    done = answer("snapshot", "export", tmp_path, "--name", "nightly", url=url)
    assert (done["name"], done["steps_kept"]) == ("nightly", 1)


def test_a_step_whose_file_was_damaged_is_repeated(cluster, tmp_path):
    url, _ = cluster
    with started_export(url, tmp_path, "--workers", "1", *SHARES, "-D", "rate=30") as process:
        wait_until_steps(process, tmp_path, 2)
    steps = steps_done(tmp_path)
    files = [file["path"] for path in steps for _, file in json.loads(path.read_text())]
    damaged = next(tmp_path.glob(f"_unfinished/*/tables/{files[0]}"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    done = answer("snapshot", "export", tmp_path, *SHARES, url=url)
    assert done["steps_kept"] == len(steps) - 1
    assert all_rows(tmp_path) == tables.read({"metadata": url})


def test_two_exports_to_one_place_exclude_each_other(cluster, tmp_path):
    url, _ = cluster
    with SnapshotDirectory(tmp_path).writing():
        done = mledger("snapshot", "export", tmp_path, url=url)
    assert done.code == 4
    assert "another export is writing" in done.err


def test_verify_names_every_file_that_has_changed(cluster, tmp_path):
    url, _ = cluster
    name = answer("snapshot", "export", tmp_path, url=url)["name"]
    place = tmp_path / f"snapshot={name}"
    changed, gone = min(tmp_path.glob("cursors/*/*")), min(tmp_path.glob("topics/*/*"))
    data = bytearray(changed.read_bytes())
    data[len(data) // 2] ^= 1
    changed.write_bytes(data)
    gone.unlink()
    (gone.parent / "more").write_text("")
    done = mledger("snapshot", "verify", place, "--output", "json")
    assert done.code == 1
    assert [(each["path"].split("/")[0], each["reason"]) for each in done.json["problems"]] == [
        ("cursors", "its SHA-256 digest differs from the manifest's"),
        ("topics", "the manifest does not name it"),
        ("topics", "it is not there"),
    ]


def test_older_snapshots_are_removed_after_a_confirmation(cluster, tmp_path):
    url, _ = cluster
    names = [answer("snapshot", "export", tmp_path, url=url)["name"] for _ in range(3)]
    plan = answer("snapshot", "export", tmp_path, "--keep", 2, "--dry-run", url=url)
    assert [each["name"] for each in plan["removed"]] == names[:2]
    refused = mledger("snapshot", "export", tmp_path, "--keep", 2, url=url)
    assert refused.code == 2
    assert "use --yes" in refused.err
    assert [each["name"] for each in answer("snapshot", "list", tmp_path)] == names
    done = answer("snapshot", "export", tmp_path, "--keep", 2, "--yes", url=url)
    assert [each["name"] for each in done["removed"]] == names[:2]
    assert [each["name"] for each in answer("snapshot", "list", tmp_path)] == [names[2], done["name"]]


def test_keep_neither_counts_nor_removes_a_damaged_snapshot(cluster, tmp_path):
    url, _ = cluster
    names = [answer("snapshot", "export", tmp_path, url=url)["name"] for _ in range(3)]
    damaged = tmp_path / f"snapshot={names[0]}" / "manifest.json"
    damaged.write_text("{")
    done = mledger("snapshot", "export", tmp_path, "--keep", 2, "--yes", "--output", "json", url=url)
    assert [each["name"] for each in done.json["removed"]] == [names[1]]
    assert done.err.count(f"{damaged} is not the manifest of a snapshot") == 1
    assert damaged.exists()


def test_keep_neither_counts_nor_removes_snapshots_of_another_part_of_the_cluster(cluster, tmp_path):
    url, _ = cluster
    of_all = [answer("snapshot", "export", tmp_path, url=url)["name"] for _ in range(3)]
    export = ("snapshot", "export", tmp_path, "-D", "tenant=golden", "--keep", 1, "--yes")
    first = answer(*export, url=url)
    second = answer(*export, url=url)
    assert [each["name"] for each in second["removed"]] == [first["name"]]
    assert [each["name"] for each in answer("snapshot", "list", tmp_path)] == [*of_all, second["name"]]


def test_keep_leaves_the_snapshots_of_a_cluster_that_another_machine_calls_by_the_same_name(cluster, tmp_path):
    url, _ = cluster
    names = [answer("snapshot", "export", tmp_path, url=url)["name"] for _ in range(2)]
    manifest = tmp_path / f"snapshot={names[0]}" / "manifest.json"
    theirs = json.loads(manifest.read_text())
    assert theirs["cluster"]
    manifest.write_text(json.dumps(theirs | {"cluster": "of-another-machine"}))
    done = answer("snapshot", "export", tmp_path, "--keep", 1, "--yes", url=url)
    assert [each["name"] for each in done["removed"]] == [names[1]]


def test_keep_neither_counts_nor_removes_a_snapshot_from_the_future(cluster, tmp_path):
    url, _ = cluster
    names = [answer("snapshot", "export", tmp_path, "--name", name, url=url)["name"] for name in ("ahead", "yesterday")]
    manifest = tmp_path / "snapshot=ahead" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"time_ms": 32_472_144_000_000}))
    done = mledger("snapshot", "export", tmp_path, "--name", "now", "--keep", 2, "--yes", "-o", "json", url=url)
    assert done.json["removed"] == []
    assert "the snapshot ahead is left out: its time, 2999-" in done.err
    left = {each["name"] for each in answer("snapshot", "list", tmp_path)}
    assert left == {*names, "now"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("export", "/proc/nowhere"), 1, "/proc/nowhere cannot be written"),
        (("export", "here", "-D", "zxid=1"), 2, "only for ZooKeeper's own files"),
        (("export", "here", "-D", "nonsense"), 2, "write it as NAME=VALUE"),
        (("export", "here", "--name", "../x"), 2, "is not a valid snapshot name"),
        (("list", "nowhere"), 3, "nowhere is not a directory of snapshots"),
        (("verify", "."), 3, "has no complete snapshot"),
    ],
)
def test_bad_input_is_refused_in_one_line(cluster, tmp_path, monkeypatch, arguments, code, words):
    url, _ = cluster
    monkeypatch.chdir(tmp_path)
    done = mledger("snapshot", *arguments, url=url)
    assert (done.code, len(done.err.splitlines())) == (code, 1), done.err
    assert words in done.err


def test_the_error_names_an_unreadable_manifest_and_what_to_do_about_it(cluster, tmp_path):
    url, _ = cluster
    place = tmp_path / f"snapshot={answer('snapshot', 'export', tmp_path, url=url)['name']}"
    (place / "manifest.json").write_text("{")
    done = mledger("snapshot", "verify", place)
    assert (done.code, "is not the manifest of a snapshot" in done.err) == (1, True)
    assert "remove it, and export again" in mledger("snapshot", "list", tmp_path).err
    (place / "manifest.json").unlink()
    name = answer("snapshot", "export", tmp_path, url=url)["name"]
    assert [each["name"] for each in answer("snapshot", "list", tmp_path)] == [name]
