"""`mledger undo` of a `metadata restore --remove`, over both kinds of store: the nodes that it removed come back."""

import pytest

from mledger.ledgers.pending_records import RECORD_FOLDERS
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.metadata.tree import tree


@pytest.fixture(params=["rocksdb_url", "metadata_url"])
def url(request):
    """The URL of an empty store, once for each kind of server."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def removed(url, tmp_path, undo_file):
    """A restore has removed all that a cluster had but the counters of ledger ids; what there was before."""
    run(create(url, "/admin"))
    file = tmp_path / "backup.jsonl"
    ok("metadata", "backup", file, url=url)
    ok("metadata", "init", url=url)
    run(create(url, *RECORD_FOLDERS, "/managed-ledgers/t/n/persistent/x/one"))
    before = stored(url)
    answer("metadata", "restore", file, "--remove", "--yes", "--undo-file", undo_file, url=url)
    assert not set(RECORD_FOLDERS) & set(stored(url))
    return before


async def create(url: str, *paths: str, data: bytes = b"") -> None:
    async with await open_store(url) as store:
        for path in paths:
            await store.create(path, data, parents=True)


def stored(url: str) -> dict[str, bytes]:
    return {path: data for path, (_, data) in tree(url).items()}


def test_undo_brings_back_the_folders_that_the_tool_itself_needs(url, removed, undo_file):
    answer("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert stored(url) == removed


def test_undo_goes_on_where_a_client_has_created_the_folders_since(url, removed, undo_file):
    run(create(url, *RECORD_FOLDERS))
    planned = answer("undo", undo_file, "--dry-run", url=url)
    notes = {each["path"]: each["note"] for each in planned["records"] if each["action"] == "leave"}
    assert notes == dict.fromkeys(["/mledger", *RECORD_FOLDERS], "as it was before")
    answer("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert stored(url) == removed


def test_data_that_a_folder_had_comes_back_with_it(url, tmp_path, undo_file):
    run(create(url, "/admin"))
    file = tmp_path / "backup.jsonl"
    ok("metadata", "backup", file, url=url)
    run(create(url, "/mledger", data=b"a note"))
    answer("metadata", "restore", file, "--remove", "--yes", "--undo-file", undo_file, url=url)
    answer("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert stored(url)["/mledger"] == b"a note"


def test_a_folder_with_other_data_than_the_removed_one_is_refused(url, removed, undo_file):
    run(create(url, "/mledger", data=b"another's"))
    refused = mledger("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert (refused.code, "/mledger is at version 0, but the command left it not there" in refused.err) == (4, True)
