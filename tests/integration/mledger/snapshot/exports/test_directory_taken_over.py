"""An export that was paused until another took its directory over: it decides nothing and shows nothing any more."""

import shutil

import pytest

from mledger.snapshot.exports import directory
from mledger.snapshot.exports.destination import Destination
from mledger.snapshot.exports.directory import COMMIT, MANIFEST, UNFINISHED, SnapshotDirectory
from mledger.snapshot.exports.errors import ExportBusy
from tests.support.snapshots.exports import write_snapshot
from tests.support.snapshots.snapshot_pairs import NOW

BUSY = "another export has taken over"


@pytest.fixture
def paused_before(tmp_path, monkeypatch):
    """Pauses the export in `tmp_path` before it writes a file of the name; `meanwhile` is what the other one does."""

    def pause(name, meanwhile):
        lost, write = [], Destination.write

        def paused_write(place, written, data):
            if written == name and not lost:
                lost.append(True)
                meanwhile()
            write(place, written, data)

        class TakenOver(SnapshotDirectory):
            def __init__(self, there):
                super().__init__(there)
                self._still_ours = still_ours

        def still_ours():
            if lost:
                raise ExportBusy(BUSY)

        monkeypatch.setattr(Destination, "write", paused_write)
        monkeypatch.setattr("tests.support.snapshots.exports.SnapshotDirectory", TakenOver)

    return pause


def export_monday(to):
    with pytest.raises(ExportBusy, match=BUSY):
        write_snapshot(to, "monday", NOW)


def test_a_decision_that_comes_after_the_files_were_discarded_is_taken_back(tmp_path, paused_before):
    paused_before(COMMIT, lambda: SnapshotDirectory(tmp_path).discard("monday"))
    export_monday(tmp_path)
    assert not (tmp_path / UNFINISHED / "monday" / COMMIT).exists()
    with SnapshotDirectory(tmp_path).writing():
        assert SnapshotDirectory(tmp_path).snapshots() == []


def test_a_decision_that_comes_late_with_all_files_is_carried_out_by_the_next_export(tmp_path, paused_before):
    paused_before(COMMIT, lambda: None)
    export_monday(tmp_path)
    assert SnapshotDirectory(tmp_path).snapshots() == []
    with SnapshotDirectory(tmp_path).writing():
        assert [each.name for each in SnapshotDirectory(tmp_path).snapshots()] == ["monday"]


def test_a_manifest_that_comes_after_the_snapshot_was_removed_is_taken_back(tmp_path, paused_before):
    def remove():
        for table in directory.TABLES:
            shutil.rmtree(tmp_path / table)

    paused_before(MANIFEST, remove)
    export_monday(tmp_path)
    assert SnapshotDirectory(tmp_path).snapshots() == []


def test_a_manifest_that_comes_late_stays_beside_its_files(tmp_path, paused_before):
    paused_before(MANIFEST, lambda: None)
    export_monday(tmp_path)
    assert [each.name for each in SnapshotDirectory(tmp_path).snapshots()] == ["monday"]
