"""Files at a destination, which other exports may change meanwhile."""

import pytest
from pyarrow import fs

from mledger.snapshot.exports.destination import Destination
from mledger.snapshot.exports.errors import ExportNotWritable


class ShrinkingSystem:
    """A file system whose files are there when they are looked at, and then raise `error`."""

    def __init__(self, error):
        self.error = error

    def get_file_info(self, path):
        return fs.FileInfo(path, type=fs.FileType.File, size=0)

    def delete_file(self, path):
        raise self.error


def test_a_file_that_another_export_removes_first_is_removed():
    Destination(ShrinkingSystem(FileNotFoundError(2, "Path does not exist")), "bucket", "s3://bucket").remove_file("a")


def test_a_file_that_cannot_be_removed_is_named():
    there = Destination(ShrinkingSystem(PermissionError(13, "denied")), "bucket", "s3://bucket")
    with pytest.raises(ExportNotWritable, match="s3://bucket/a cannot be written: "):
        there.remove_file("a")
