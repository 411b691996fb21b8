"""Files reached through Arrow's file systems are read like local ones, and errors say what cannot be reached."""

import pickle
from pathlib import Path

import pytest

from mledger.snapshot import DataDirectory, ExactTree, FileNotReadable, LocalFiles
from mledger.snapshot.zookeeper_files.errors import InvalidOption
from mledger.snapshot.zookeeper_files.file_access.arrow_files import ArrowFiles, data_files, local_path
from tests.support.recordings import golden
from tests.support.snapshots import tables

CASES = [case.removesuffix(".json") for case in golden.files("zookeeper-files/data-*.json")]


def uri(case):
    return (Path(golden.ROOT) / case).as_uri()


def tree(files):
    read = ExactTree(files, DataDirectory(files).plan())
    return sorted(read.nodes()), read.summary


@pytest.mark.parametrize("case", CASES)
def test_a_data_directory_reads_the_same_through_arrow(case):
    there = pickle.loads(pickle.dumps(ArrowFiles(uri(case))))
    here = LocalFiles(str(golden.ROOT / case))
    assert there.names() == here.names()
    assert tree(there) == tree(here)


def test_logs_may_be_elsewhere(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "data").mkdir()
    for file in (golden.ROOT / CASES[0] / "version-2").iterdir():
        (tmp_path / ("logs" if file.name.startswith("log.") else "data") / file.name).write_bytes(file.read_bytes())
    there = ArrowFiles((tmp_path / "data").as_uri(), (tmp_path / "logs").as_uri())
    assert tree(there) == tree(LocalFiles(str(golden.ROOT / CASES[0])))
    found = tables.read(
        {"metadata": (tmp_path / "data").as_uri(), "logs": (tmp_path / "logs").as_uri()}, "topics", "errors"
    )
    assert found == {"topics": [], "errors": []}


@pytest.mark.parametrize("case", CASES)
def test_nodes_of_other_programs_give_no_rows(case):
    """Their paths resemble a cluster's, but none is the path of a topic, cursor or ledger."""
    assert {name: rows for name, rows in tables.read({"metadata": uri(case)}).items() if rows} == {}


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(FileNotReadable, match="nowhere cannot be read"):
        ArrowFiles((tmp_path / "nowhere").as_uri()).names()
    with pytest.raises(FileNotReadable, match=r"snapshot\.1 in .* cannot be read"):
        ArrowFiles(tmp_path.as_uri()).open("snapshot.1")


def test_a_scheme_unknown_to_arrow_is_named():
    with pytest.raises(FileNotReadable, match="foo://bucket/backup cannot be read: ") as raised:
        ArrowFiles("foo://user:secret@bucket/backup").names()
    assert "secret" not in str(raised.value).partition("cannot be read")[0]


def test_hadoop_names_of_s3_are_read():
    assert ArrowFiles("s3a://bucket/backup").uri == "s3://bucket/backup"


@pytest.mark.parametrize(
    ("text", "path"), [("/a/b", "/a/b"), ("file:///a%20b", "/a b"), ("file:/a", "/a"), ("hdfs://n/a", None)]
)
def test_local_places_are_recognised(text, path):
    assert local_path(text) == path


def test_both_directories_are_local_or_neither_is():
    assert isinstance(data_files("file:///a", "/b"), LocalFiles)
    assert isinstance(data_files("s3://a/b", "s3://a/c"), ArrowFiles)
    with pytest.raises(InvalidOption, match=r"^metadata s3://a/b and logs /c: both must be local"):
        data_files("s3://key:secret@a/b", "/c")
    with pytest.raises(InvalidOption, match="must not name a host"):
        data_files("file://host/a", None)
