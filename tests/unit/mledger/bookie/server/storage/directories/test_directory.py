"""The format file of a bookie's directory, in every version."""

import errno
import os
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from mledger.bookie.errors import DiskFull, InvalidBookieDirectory
from mledger.bookie.server.storage.directories import directory as directory_module
from mledger.bookie.server.storage.directories.directory import (
    FORMAT_VERSION,
    BookieDirectory,
    DirectoryFormat,
    decode_format,
    encode_format,
    new_format,
    plan_completion,
)

FORMAT = DirectoryFormat(FORMAT_VERSION, "host:3181", "cluster", b"0123456789abcdef")


def test_a_format_file_is_read_back_as_written():
    assert decode_format(encode_format(FORMAT), "FORMAT") == FORMAT


@pytest.mark.parametrize("text", ["", "something else\nversion 1\n", "mledger bookie directory\nversion 1\nbookie a\n"])
def test_a_damaged_format_file_is_refused(text):
    with pytest.raises(InvalidBookieDirectory):
        decode_format(text, "FORMAT")


@pytest.mark.parametrize("version", [1, 2])
def test_a_directory_of_an_earlier_version_is_read_and_upgraded(version):
    journal = "journal journal\n" if version == 2 else ""
    fields = f"bookie host:3181\ninstance cluster\nsalt {FORMAT.salt.hex()}\n{journal}"
    text = f"mledger bookie directory\nversion {version}\n{fields}"
    found = decode_format(text, "FORMAT")
    assert (found.version, found.journal, found.complete) == (version, "journal", False)
    assert encode_format(found) == text
    assert plan_completion(found) == replace(FORMAT, complete=True)


def test_a_directory_whose_parts_were_created_is_marked_complete():
    completed = plan_completion(FORMAT)
    assert completed == replace(FORMAT, complete=True)
    assert decode_format(encode_format(completed), "FORMAT") == completed
    assert plan_completion(completed) is None


@pytest.mark.parametrize("version", [0, 4, 99])
def test_an_unknown_version_is_refused_with_what_to_do(version):
    with pytest.raises(
        InvalidBookieDirectory, match=f"version {version}, this program knows 1 to 3: start the version"
    ):
        decode_format(f"mledger bookie directory\nversion {version}\n", "FORMAT")


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [(errno.EIO, InvalidBookieDirectory, "see to the disk"), (errno.ENOSPC, DiskFull, "disk full, the bookie cannot")],
)
@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_disk_that_fails_while_a_directory_is_begun_is_named(tmp_path, monkeypatch, call, code, error, said):
    directory = BookieDirectory(str(tmp_path / "bookie"))
    monkeypatch.setattr(os, call, Mock(side_effect=OSError(code, os.strerror(code))))
    with pytest.raises(error, match=f"{tmp_path}/bookie: .*{said}"):
        directory.begin(FORMAT)
    monkeypatch.undo()
    assert directory.format is None
    directory.begin(FORMAT)
    directory.unlock()
    assert BookieDirectory(str(tmp_path / "bookie")).format == FORMAT


def test_a_directory_that_cannot_be_created_is_named_and_not_locked(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidBookieDirectory, match=f"{tmp_path}/file/bookie: cannot be opened"):
        BookieDirectory(str(tmp_path / "file" / "bookie"))


def test_the_name_of_a_journal_on_another_disk_is_made_durable(tmp_path, monkeypatch):
    journal = tmp_path / "disk" / "journal"
    directory = BookieDirectory(str(tmp_path / "bookie"), str(journal))
    directory.begin(new_format("host:3181", "cluster", directory.journal_entry))
    synced = []
    monkeypatch.setattr(directory_module, "sync_directory", synced.append)
    directory.make_journal()
    directory.keep_parts()
    directory.unlock()
    assert synced == [str(journal.parent)]


def test_the_mark_of_a_directory_is_that_of_no_copy_nor_of_another_machine(tmp_path, monkeypatch):
    paths = [str(tmp_path / name) for name in ("original", "copy")]
    marks = []
    for path in (*paths, paths[0]):
        locked = BookieDirectory(path)
        marks.append(locked.mark)
        locked.unlock()
    monkeypatch.setattr(directory_module, "_machine", lambda: "another boot")
    elsewhere = BookieDirectory(paths[0])
    marks.append(elsewhere.mark)
    elsewhere.unlock()
    assert marks[0] == marks[2]
    assert len(set(marks)) == 3


@pytest.mark.parametrize("end", ["\n", "\r", "\x0b", "\x85", "\u2028"])
def test_a_journal_whose_name_the_format_file_would_not_give_back_is_refused(tmp_path, end):
    with pytest.raises(InvalidBookieDirectory, match="line end in its name"):
        BookieDirectory(str(tmp_path / "bookie"), str(tmp_path / f"journal{end}of it"))
