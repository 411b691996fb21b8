"""A changing command killed with -9 at each step: nothing was changed, or an undo file lists what may have been."""

import sys

import pytest

from mledger.admin.undo.undo_file import NodeState, Outcome
from mledger.cli.shared.changes import undo_files
from mledger.metastore.url import open_store
from tests.support.aio import HANG_S, run
from tests.support.cli import ROOT, mledger, ok
from tests.support.forked_python import ForkedPython

STEPS = ["look again", "write undo file", "act", "complete undo file", "undo file completed"]


async def _create(url: str, path: str) -> None:
    async with await open_store(url) as store:
        await store.create(path, b"before")


async def _state(url: str, path: str) -> NodeState | None:
    async with await open_store(url) as store:
        (node,) = await store.get_many([path])
        return NodeState.of(node)


@pytest.fixture
def path(request, metadata_url):
    """A node at version 0."""
    path = f"/node-{STEPS.index(request.node.callspec.params['step'])}"
    run(_create(metadata_url, path))
    return path


@pytest.mark.parametrize("step", STEPS)
def test_a_command_killed_at_any_step_can_be_undone(metadata_url, tmp_path, step, path) -> None:
    file = tmp_path / "undo.json"
    command = [sys.executable, "-m", "tests.support.commands.undo_steps", metadata_url, str(file), step, path, "after"]
    assert ForkedPython(command, cwd=ROOT).wait(HANG_S) == -9
    now = run(_state(metadata_url, path))
    if step in {"look again", "write undo file"}:
        assert now == NodeState(b"before", 0)
        assert list(tmp_path.iterdir()) == []
        return
    assert [each.name for each in tmp_path.iterdir()] == [file.name]
    completed = undo_files.load(file).outcome is Outcome.DONE
    assert completed == (step == "undo file completed")
    assert now == NodeState(b"before", 0) if step == "act" else now == NodeState(b"after", 1)
    if not completed and step != "act":
        refused = mledger("undo", file, "--yes", url=metadata_url)
        assert refused.code == 4
        assert path in refused.err
    redo = tmp_path / "redo.json"
    how = [] if completed else ["--incomplete"]
    ok("undo", file, "--yes", "--undo-file", redo, *how, url=metadata_url)
    assert run(_state(metadata_url, path)).data == b"before"
