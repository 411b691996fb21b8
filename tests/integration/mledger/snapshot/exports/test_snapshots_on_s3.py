"""ZooKeeper's files read from an object store, and snapshots written to one: real requests to a server on loopback."""

import random
import signal
import threading
import urllib.parse
from pathlib import Path

import pytest

from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from mledger.snapshot import DataDirectory, ExactTree, LocalFiles
from mledger.snapshot.sql.queries import CHANGES, QUERIES, open_snapshots
from mledger.snapshot.tables.row_builder import TABLES
from mledger.snapshot.zookeeper_files.file_access.arrow_files import ArrowFiles
from mledger.snapshot.zookeeper_files.file_access.read_ahead import BLOCK
from mledger.snapshot.zookeeper_files.streams import CHUNK
from tests.support.cli import answer, mledger
from tests.support.recordings import golden
from tests.support.snapshots import tables
from tests.support.snapshots.exports import all_rows, started_export, wait_for, write_varied_cluster
from tests.support.snapshots.s3 import UNLIMITED, s3, s3_server
from tests.support.snapshots.snapshot_pairs import write_both

__all__ = ["s3", "s3_server"]

CASES = [case.removesuffix(".json") for case in golden.files("zookeeper-files/data-*.json")]
SHARES = ("-D", "partitions=4")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The URL of a cluster, and the directory of its server's files."""
    directory = tmp_path_factory.mktemp("exported-to-s3")
    with ZooKeeperServer.start(directory, sync=False) as server:
        write_varied_cluster(f"{server.url}/pulsar")
        yield f"{server.url}/pulsar", directory / "data"


def records(s3, prefix):
    """The records of steps that an unfinished export has completed."""
    return [name for name in s3.written(prefix) if name.startswith("_unfinished/") and "/steps/" in name]


def partitions(s3, prefix):
    """The parts of all names that stand for a snapshot."""
    return {part for name in s3.written(prefix) for part in name.split("/") if part.startswith("snapshot=")}


def tree(files):
    read = ExactTree(files, DataDirectory(files).plan())
    return sorted(read.nodes()), read.summary


@pytest.mark.parametrize("case", CASES)
def test_a_data_directory_in_a_bucket_reads_like_its_original(s3, case):
    there = ArrowFiles(s3.put(golden.ROOT / case, Path(case).name).replace("s3://", "s3a://"))
    here = LocalFiles(str(golden.ROOT / case))
    assert there.names() == here.names()
    assert tree(there) == tree(here)


def test_a_large_file_in_a_bucket_is_fetched_ahead_of_its_reader(s3, tmp_path):
    content = random.Random(1).randbytes(3 * BLOCK + 5)
    (tmp_path / "snapshot.1").write_bytes(content)
    with ArrowFiles(s3.put(tmp_path, "large")).open("snapshot.1") as file:
        found = [file.read(CHUNK), file.read(CHUNK)]
        assert [thread for thread in threading.enumerate() if thread.name.startswith("read-ahead")]
        found += iter(lambda: file.read(CHUNK), b"")
    assert b"".join(found) == content


def test_snapshots_and_logs_may_be_under_different_names(s3, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "data").mkdir()
    for file in (golden.ROOT / CASES[0] / "version-2").iterdir():
        (tmp_path / ("logs" if file.name.startswith("log.") else "data") / file.name).write_bytes(file.read_bytes())
    there = ArrowFiles(s3.put(tmp_path / "data", "apart/data"), s3.put(tmp_path / "logs", "apart/logs"))
    assert tree(there) == tree(LocalFiles(str(golden.ROOT / CASES[0])))


def test_an_export_from_a_bucket_to_a_bucket_has_the_cluster_s_rows(s3, cluster):
    url, directory = cluster
    files = s3.put(directory, "zookeeper")
    export = ("--metadata", files, "snapshot", "export", "s3a://metadata/backup", "-D", "chroot=/pulsar")
    first, second = answer(*export, "--workers", 2), answer(*export)
    assert (first["already_there"], second["already_there"]) == (False, True)
    assert first["snapshot"] == f"s3a://metadata/backup/snapshot={first['name']}"
    assert all_rows("s3://metadata/backup") == tables.read({"metadata": url})
    (listed,) = answer("snapshot", "list", "s3://metadata/backup")
    assert (listed["name"], listed["rows"]) == (first["name"], first["rows"])
    assert answer("snapshot", "verify", "s3://metadata/backup")["whole"]


def test_keys_and_endpoint_may_be_in_the_uri_and_are_not_shown(s3, cluster, monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    endpoint = urllib.parse.quote(s3.endpoint.removeprefix("http://"), safe="")
    to = f"s3://key:secret@metadata/by-uri?scheme=http&endpoint_override={endpoint}"
    done = mledger("snapshot", "export", to, "--name", "monday", url=cluster[0])
    assert done.code == 0, done.err
    assert "secret" not in done.out + done.err
    assert "s3://metadata/by-uri/snapshot=monday" in done.out
    assert [each["name"] for each in answer("snapshot", "list", to)] == ["monday"]


def test_a_killed_export_leaves_the_previous_snapshot_and_is_continued(s3, cluster):
    url, _ = cluster
    to = "s3://metadata/killed"
    before = answer("snapshot", "export", to, url=url)
    with started_export(url, to, "--workers", "1", *SHARES, "-D", "rate=30") as process:
        wait_for(lambda: records(s3, "killed"))
        process.send_signal(signal.SIGKILL)
        process.wait()
    kept = len(records(s3, "killed"))
    assert not [name for name in s3.written("killed") if name[0] != "_" and before["name"] not in name]
    assert [each["name"] for each in answer("snapshot", "list", to)] == [before["name"]]
    done = answer("snapshot", "export", to, *SHARES, url=url)
    assert done["steps_kept"] == kept > 0
    assert all_rows(done["snapshot"]) == tables.read({"metadata": url})
    assert answer("snapshot", "verify", done["snapshot"])["whole"]
    assert not [name for name in s3.written("killed") if name.startswith("_")]


@pytest.mark.parametrize("requests", [10, 40, 80, 120])
def test_a_store_that_fails_at_any_time_shows_no_part_and_the_retry_completes(s3, cluster, requests):
    url, _ = cluster
    prefix = f"cut{requests}"
    to = ("snapshot", "export", f"s3://metadata/{prefix}", "--name", "monday", "--workers", "1")
    s3.deny_after(requests)
    cut = mledger(*to, url=url)
    s3.deny_after(UNLIMITED)
    assert (cut.code, len(cut.err.splitlines())) == (1, 1), cut.err
    assert f"s3://metadata/{prefix}/" in cut.err
    assert answer("snapshot", "list", f"s3://metadata/{prefix}") == []
    done = answer(*to, url=url)
    assert all_rows(f"s3://metadata/{prefix}") == tables.read({"metadata": url})
    assert answer("snapshot", "verify", done["snapshot"])["whole"]
    assert {name.partition("/")[0] for name in s3.written(prefix)} == {*TABLES, "snapshot=monday"}


def test_older_snapshots_are_removed_with_all_their_objects(s3, cluster):
    url, _ = cluster
    names = [answer("snapshot", "export", "s3://metadata/kept", url=url)["name"] for _ in range(2)]
    done = answer("snapshot", "export", "s3://metadata/kept", "--keep", 1, "--yes", url=url)
    assert [each["name"] for each in done["removed"]] == names
    assert partitions(s3, "kept") == {f"snapshot={done['name']}"}


def test_an_interrupted_removal_is_completed_by_the_next_export(s3, cluster):
    url, _ = cluster
    name = answer("snapshot", "export", "s3://metadata/halfway", url=url)["name"]
    s3.client.put_object(Bucket="metadata", Key=f"halfway/_removed/{name}", Body=b"")
    s3.client.delete_object(Bucket="metadata", Key=f"halfway/snapshot={name}/manifest.json")
    assert answer("snapshot", "list", "s3://metadata/halfway") == []
    done = answer("snapshot", "export", "s3://metadata/halfway", "--name", "next", url=url)
    assert partitions(s3, "halfway") == {f"snapshot={done['name']}"}


def test_verify_names_missing_changed_and_additional_files(s3, cluster):
    url, _ = cluster
    answer("snapshot", "export", "s3://metadata/damaged", "--name", "one", url=url)
    names = sorted(s3.written("damaged"))
    changed = next(name for name in names if name.startswith("cursors/"))
    gone = next(name for name in names if name.startswith("topics/"))
    body = bytearray(s3.client.get_object(Bucket="metadata", Key=f"damaged/{changed}")["Body"].read())
    body[len(body) // 2] ^= 1
    s3.client.put_object(Bucket="metadata", Key=f"damaged/{changed}", Body=bytes(body))
    s3.client.delete_object(Bucket="metadata", Key=f"damaged/{gone}")
    s3.client.put_object(Bucket="metadata", Key="damaged/topics/snapshot=one/more", Body=b"")
    done = mledger("snapshot", "verify", "s3://metadata/damaged", "--output", "json")
    assert done.code == 1
    assert {each["path"]: each["reason"] for each in done.json["problems"]} == {
        changed: "its SHA-256 digest differs from the manifest's",
        gone: "it is not there",
        "topics/snapshot=one/more": "the manifest does not name it",
    }


def test_every_query_has_the_answer_that_it_has_on_a_disk(s3, tmp_path):
    before, now = write_both(tmp_path)
    root = s3.put(tmp_path, "asked")
    there = [f"{root}/{each.name}" for each in (before, now)]
    with open_snapshots(str(now), str(before)) as here, open_snapshots(there[1], there[0]) as away:
        for query in (QUERIES | CHANGES).values():
            assert away.ask(query).to_pylist() == here.ask(query).to_pylist(), query.name
    page = tmp_path / "report.html"
    answer("report", there[1], "--before", there[0], "--to", page)
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("export", "s3://nowhere/x"), 1, "s3://nowhere/x/_trial cannot be written: NO_SUCH_BUCKET: "),
        (("list", "s3://nowhere/x"), 3, "s3://nowhere/x is not a directory of snapshots"),
        (("ask", "s3://metadata/nothing", "backlog"), 3, "s3://metadata/nothing is not a directory of snapshots"),
        (("export", "foo://bucket/x"), 1, "foo://bucket/x cannot be reached: "),
    ],
)
def test_bad_input_is_refused_in_one_line(s3, cluster, tmp_path, monkeypatch, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    done = mledger("snapshot", *arguments, url=cluster[0])
    assert (done.code, len(done.err.splitlines())) == (code, 1), done.err
    assert words in done.err


def test_keys_unknown_to_the_store_are_reported_before_anything_is_read(s3, cluster):
    s3.deny_after(0)
    done = mledger("snapshot", "export", "s3://metadata/denied", url=cluster[0])
    assert (done.code, len(done.err.splitlines())) == (1, 1), done.err
    assert "s3://metadata/denied/_trial cannot be written: " in done.err


def test_the_error_names_an_endpoint_that_nobody_serves(s3, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    done = mledger("--metadata", "s3://metadata/zookeeper", "snapshot", "export", tmp_path)
    assert (done.code, len(done.err.splitlines())) == (1, 1), done.err
    assert "s3://metadata/zookeeper cannot be read: NETWORK_CONNECTION: " in done.err
