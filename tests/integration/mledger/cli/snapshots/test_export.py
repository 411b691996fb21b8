"""`mledger snapshot export` as an operator sees it."""

import random
import socket

import pytest

from mledger.snapshot.exports.directory import SnapshotDirectory
from tests.support.cli import answer, mledger
from tests.support.snapshots.cluster_history import ClusterHistory


def test_the_timeout_ends_an_export_that_waits_for_zookeeper(tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"zk://127.0.0.1:{silent.getsockname()[1]}"
        done = mledger("--timeout", "0.2", "snapshot", "export", tmp_path / "kept", url=url)
    assert (done.code, done.err) == (5, "mledger: not done within --timeout, 0.2 s\n")


def test_keep_counts_a_snapshot_that_a_killed_export_had_decided(tmp_path, monkeypatch) -> None:
    url, to = f"file://{tmp_path}/files", tmp_path / "kept"
    server = ClusterHistory(random.Random(1))
    server.steps(9)
    server.write(tmp_path / "files")

    def export(name, *more):
        return answer("snapshot", "export", to, "--name", name, *more, url=url)

    for name in ("friday", "saturday"):
        export(name)
    with monkeypatch.context() as patched:
        patched.setattr(SnapshotDirectory, "_complete", _killed)
        with pytest.raises(AssertionError, match="killed"):
            export("sunday")
    plan = export("monday", "--keep", 2, "--dry-run")
    done = export("monday", "--keep", 2, "--yes")
    assert [each["name"] for each in done["removed"]] == [each["name"] for each in plan["removed"]]
    assert [each["name"] for each in answer("snapshot", "list", to)] == ["monday", "sunday"]


def _killed(*_: object) -> None:
    raise OSError("killed")
