"""`mledger undo` of a `metadata restore --remove`, over both kinds of store: the nodes that it removed come back."""

import pytest
from msgspec.structs import replace

from mledger.cli.shared.changes import undo_files
from mledger.ledgers.orphans.pending_records import RECORD_FOLDERS
from mledger.metastore.store import ANY_VERSION
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.commands.meanwhile import meanwhile
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


def test_an_owner_that_opens_the_topic_of_a_restored_cursor_meanwhile_ends_the_undo(
    url, tmp_path, undo_file, monkeypatch
):
    topic = "/managed-ledgers/t/n/persistent/x"
    run(create(url, topic))
    run(create(url, f"{topic}/one", data=b"then"))
    file = tmp_path / "backup.jsonl"
    ok("metadata", "backup", file, url=url)
    run(put(url, f"{topic}/one", b"now"))
    answer("metadata", "restore", file, "--yes", "--undo-file", undo_file, url=url)
    meanwhile(monkeypatch, "act", lambda: run(put(url, topic, b"")))  # the first write of each owner
    refused = mledger("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert (refused.code, f"{topic} was changed meanwhile" in refused.err) == (4, True)
    assert stored(url)[f"{topic}/one"] == b"then"


def test_a_cursor_whose_topic_is_gone_is_not_restored(url, tmp_path, undo_file):
    """Else the topic would be there again, without ledgers."""
    run(create(url, "/admin"))
    file = tmp_path / "backup.jsonl"
    ok("metadata", "backup", file, url=url)
    topic = "/managed-ledgers/t/n/persistent/x"
    run(create(url, topic))
    run(create(url, f"{topic}/one"))
    answer("metadata", "restore", file, "--path", topic, "--remove", "--yes", "--undo-file", undo_file, url=url)
    # of a file that names the cursor only, as of a restore that found the topic as in the backup
    found = undo_files.load(undo_file)
    undo_files.rewrite(undo_file, replace(found, records=(found.records[-1],)))
    assert found.records[-1].path == f"{topic}/one"
    refused = mledger("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert (refused.code, f"the topic {topic} is gone" in refused.err) == (4, True)
    assert topic not in stored(url)


async def put(url: str, path: str, data: bytes) -> None:
    async with await open_store(url) as store:
        await store.put(path, data, ANY_VERSION)


def test_an_undo_of_an_undo_of_many_removals_removes_them_again(url, tmp_path, undo_file):
    run(create(url, "/admin"))
    file = tmp_path / "backup.jsonl"
    ok("metadata", "backup", file, url=url)
    run(create(url, "/many", *(f"/many/{number}" for number in range(450))))
    answer("metadata", "restore", file, "--remove", "--yes", "--undo-file", undo_file, url=url)
    redo = undo_file.with_name("redo.json")
    answer("undo", undo_file, "--yes", "--undo-file", redo, url=url)
    assert len([path for path in stored(url) if path.startswith("/many")]) == 451
    answer("undo", redo, "--yes", "--undo-file", undo_file.with_name("again.json"), url=url)
    assert not [path for path in stored(url) if path.startswith("/many")]
