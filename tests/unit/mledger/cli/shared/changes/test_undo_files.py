"""Undo files on disk."""

import pytest

from mledger.admin.undo.undo_file import UndoFile
from mledger.cli.shared.changes import undo_files
from mledger.errors import UndoFileError

FILE = UndoFile("cursors skip", "t", 0, "zk://x", ())


def test_a_place_that_cannot_be_written_is_named_with_a_remedy(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UndoFileError, match=r"file/undo\.json cannot be written: .*--undo-file; nothing was changed"):
        undo_files.write_new(tmp_path / "file" / "undo.json", FILE)


def test_a_file_is_never_overwritten(tmp_path):
    undo_files.write_new(tmp_path / "undo.json", FILE)
    with pytest.raises(UndoFileError, match="exists already"):
        undo_files.write_new(tmp_path / "undo.json", FILE)
    assert undo_files.load(tmp_path / "undo.json") == FILE
