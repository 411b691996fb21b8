"""ZooKeeper's files read from HDFS, and snapshots written to it: a real name node and data node on loopback."""

import subprocess
import sys
from pathlib import Path

import pytest

from mledger.snapshot import DataDirectory, ExactTree, LocalFiles
from mledger.snapshot.exports.destination import place_at
from mledger.snapshot.sql.queries import QUERIES, open_snapshots
from mledger.snapshot.zookeeper_files.file_access.arrow_files import ArrowFiles
from mledger.snapshot.zookeeper_files.file_access.file_systems import FAILURES, open_uri, said
from tests.support.aio import HANG_S
from tests.support.cli import ROOT, answer, mledger
from tests.support.recordings import golden
from tests.support.snapshots import tables
from tests.support.snapshots.exports import all_rows, write_varied_cluster
from tests.support.snapshots.hdfs import hdfs
from tests.support.snapshots.snapshot_pairs import write_both

__all__ = ["hdfs"]

CASES = [case.removesuffix(".json") for case in golden.files("zookeeper-files/data-*.json")]


def put(directory, uri):
    there = place_at(uri)
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            there.below(*path.relative_to(directory).parent.parts).write(path.name, path.read_bytes())
    return uri


def tree(files):
    read = ExactTree(files, DataDirectory(files).plan())
    return sorted(read.nodes()), read.summary


@pytest.mark.interop
@pytest.mark.parametrize("case", CASES)
def test_a_data_directory_on_hdfs_reads_like_its_original(hdfs, case):
    there = ArrowFiles(put(golden.ROOT / case, f"{hdfs}/{Path(case).name}"))
    here = LocalFiles(str(golden.ROOT / case))
    assert there.names() == here.names()
    assert tree(there) == tree(here)


@pytest.mark.interop
@pytest.mark.slow
def test_snapshots_are_written_listed_verified_and_removed(hdfs, zookeeper_server, tmp_path):
    url, to = f"{zookeeper_server.url}/pulsar", f"{hdfs}/backup"
    write_varied_cluster(url)
    export = ("snapshot", "export", to)
    answer(*export, "--name", "one", url=url)
    assert answer(*export, "--name", "one", url=url)["already_there"]
    assert all_rows(to) == tables.read({"metadata": url})
    assert answer("snapshot", "verify", to)["whole"]
    done = answer(*export, "--name", "two", "--keep", 1, "--yes", url=url)
    assert [each["name"] for each in done["removed"]] == ["one"]
    assert [each["name"] for each in answer("snapshot", "list", to)] == ["two"]
    assert {part for name in place_at(to).sizes() for part in name.split("/") if "=" in part} == {"snapshot=two"}
    assert not [name for name in place_at(to).names() if name.startswith(("_", "."))]


@pytest.mark.interop
def test_queries_have_the_answers_that_they_have_on_a_disk(hdfs, tmp_path):
    before, now = write_both(tmp_path)
    there = put(tmp_path, f"{hdfs}/asked")
    away = [f"{there}/{each.name}" for each in (now, before)]
    with open_snapshots(str(now), str(before)) as here, open_snapshots(*away) as there:
        for query in QUERIES.values():
            assert there.ask(query).to_pylist() == here.ask(query).to_pylist(), query.name


def test_the_error_names_a_missing_name_node():
    done = mledger("snapshot", "list", "hdfs://127.0.0.1:1/backup")
    assert (done.code, done.err) == (
        1,
        "mledger: hdfs://127.0.0.1:1/backup cannot be read: Connection refused (os error 111)\n",
    )


FORKS_AFTERWARDS = """
import os
from mledger.snapshot.zookeeper_files.file_access.file_systems import FAILURES, open_uri
try:
    open_uri("hdfs://127.0.0.1:1/backup")[0].get_file_info("/backup")
except FAILURES:
    pass
child = os.fork()
if child == 0:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_process_that_has_read_hdfs_can_fork():
    command = [sys.executable, "-c", FORKS_AFTERWARDS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_S)
    assert (done.stdout, done.stderr) == ("7\n", "")


def test_without_an_hdfs_client_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    for name in ("JAVA_HOME", "HADOOP_HOME", "ARROW_LIBHDFS_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    with pytest.raises(FAILURES) as raised:
        open_uri("hdfs://127.0.0.1:1/backup")
    assert said(raised.value) == (
        "hdfs:// needs the package hdfs-native (pip install 'mledger[hdfs]'), or Hadoop's native client "
        "(JAVA_HOME, HADOOP_HOME, CLASSPATH)"
    )
