"""The undo file of a change says what the change left, also where the server that is asked lags."""

import contextlib
import errno
import os

import pytest

from mledger.admin.undo.undo_file import ChangedRecord, NodeState, Outcome, UndoFile
from mledger.cli.shared.changes import change_command, undo_files
from mledger.cli.shared.changes.change_command import CommandChange, read_before
from mledger.cli.shared.output.results import OutputRecord, fields
from mledger.metastore.errors import BadVersion
from mledger.metastore.url import open_store
from tests.support.aio import run

PATH = "/record"


class LaggingNodes:
    """A reader by a server that lags: until it is synced it has heard of nothing since."""

    def __init__(self, store, nodes):
        self._store, self._nodes = store, nodes

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def sync(self):
        self._nodes = {}
        await self._store.sync()

    async def get_many(self, paths):
        return [
            self._nodes.get(path, node) for path, node in zip(paths, await self._store.get_many(paths), strict=True)
        ]


@pytest.fixture
def carried_out(tmp_path, monkeypatch):
    """Carries a change of one record out beside a reader that lags after it; the undo file, and what was raised."""

    def carry_out(failure=None):
        async def main():
            async with await open_store("memory:") as store:
                await store.create(PATH, b"before")
                reader = LaggingNodes(store, {})

                @contextlib.asynccontextmanager
                async def opened():
                    yield reader

                async def open_reader(url):
                    return opened()

                async def act(change):
                    reader._nodes = {PATH: await store.get(PATH)}
                    await store.put(PATH, b"after", 0)
                    if failure is not None:
                        raise failure
                    return fields()

                monkeypatch.setattr(change_command, "open_reader", open_reader)
                change = CommandChange("topics trim", "t", OutputRecord(()), await read_before(store, [PATH]))
                with contextlib.suppress(BadVersion):
                    await change_command._carry_out(store.url, change, tmp_path / "undo.json", 0, act)

        run(main())
        return undo_files.load(tmp_path / "undo.json")

    return carry_out


@pytest.mark.parametrize("failure", [None, BadVersion("another record was changed", "/other")], ids=["done", "failed"])
def test_the_undo_file_has_what_the_change_left_though_the_server_lags(carried_out, failure):
    file = carried_out(failure)
    assert file.outcome is (Outcome.DONE if failure is None else Outcome.FAILED)
    assert [record.after for record in file.records] == [NodeState(b"after", 1)]


class CountedPath(str):
    """A path that counts how often it is compared with another one."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other):
        CountedPath.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_what_a_sweep_has_not_written_is_left_out_without_comparing_each_record_with_each_topic():
    names = [f"a/b/persistent/{number}" for number in range(100)]
    paths = [f"/managed-ledgers/{name}{cursor}" for name in names for cursor in ("", "/one")]
    records = tuple(ChangedRecord(path, None) for path in (*paths, "/managed-ledgers/a/b/persistent/1000"))
    file = UndoFile("topics trim", "all", 0, "memory:", records, managed_ledgers=tuple(names))
    untouched = {name: [CountedPath(f"/ledgers/{name}")] for name in names[1:]}
    CountedPath.compared = 0
    left = change_command._of_written(file, None, untouched)
    assert left.paths == (*paths[:2], "/managed-ledgers/a/b/persistent/1000")
    assert left.managed_ledgers == (names[0],)
    assert CountedPath.compared < len(records)


def test_a_change_whose_undo_file_cannot_be_completed_is_said_to_be_made(tmp_path, monkeypatch, capsys):
    def full(path, file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def main():
        async with await open_store("memory:") as store:

            @contextlib.asynccontextmanager
            async def opened():
                yield store

            async def open_reader(url):
                return opened()

            async def act(change):
                return fields()

            monkeypatch.setattr(change_command, "open_reader", open_reader)
            monkeypatch.setattr(undo_files, "rewrite", full)
            change = CommandChange("topics trim", "t", OutputRecord(()), await read_before(store, [PATH]))
            with pytest.raises(OSError, match="No space"):
                await change_command._carry_out(store.url, change, tmp_path / "undo.json", 0, act)

    run(main())
    assert "the change was made, but" in capsys.readouterr().err
    assert undo_files.load(tmp_path / "undo.json").outcome is Outcome.BEGUN
