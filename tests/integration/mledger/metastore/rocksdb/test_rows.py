"""A power loss may leave any pages of the last write: it is dropped, and what was committed before it is there."""

import os
import shutil

import pytest

from mledger.metastore.errors import InvalidMetadataDirectory
from mledger.metastore.memory.tree import NodeRecord
from mledger.metastore.rocksdb.rows import Rows

PAGE = 4096


def put(rows, *paths):
    """Commit nodes together."""
    for path in paths:
        rows.put_node(NodeRecord(path, os.urandom(500), 0, 1, 1, 0, 0))
    rows.commit()


def paths(directory):
    """The nodes in a store."""
    rows = Rows(str(directory))
    found = [record.path for record in rows.nodes()]
    rows.close()
    return found


def written(directory):
    """What a power loss leaves of a store with two small writes and a large one: its log, where that one begins."""
    rows = Rows(str(directory / "served"))
    put(rows, "/")
    put(rows, "/a")
    (log,) = (directory / "served").glob("*.log")
    begin = log.stat().st_size
    put(rows, *(f"/n{number}" for number in range(200)))
    shutil.copytree(directory / "served", directory / "store")
    rows.close()
    return directory / "store" / log.name, begin


def lose(log, begin, pages):
    """Make zeros of the pages from `begin` on with these numbers."""
    with open(log, "r+b") as file:
        for page in pages:
            file.seek(begin - begin % PAGE + page * PAGE if page else begin)
            file.write(bytes(PAGE - begin % PAGE if not page else PAGE))


@pytest.mark.parametrize("pages", [(0,), (1,), (4, 5), range(3, 20)])
def test_a_last_write_of_which_pages_are_missing_is_dropped(tmp_path, pages):
    log, begin = written(tmp_path)
    lose(log, begin, pages)
    assert paths(tmp_path / "store") == ["/", "/a"]
    assert paths(tmp_path / "store") == ["/", "/a"]


def test_damage_with_a_whole_write_behind_it_is_refused_again_and_again(tmp_path):
    log, begin = written(tmp_path)
    with open(log, "r+b") as file:
        file.seek(100)
        file.write(bytes(100))
    size = log.stat().st_size
    for _ in range(2):
        with pytest.raises(InvalidMetadataDirectory, match="Corruption"):
            Rows(str(tmp_path / "store"))
    assert log.stat().st_size == size > begin
