"""Small files are written whole or not at all."""

import errno
import os
import stat

import pytest

from mledger.metastore.runtime.durable_files import OWNER_ONLY, replace_file, take_new_name, write_beside


def test_a_file_replaces_another_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    replace_file(path, b"new", OWNER_ONLY)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == OWNER_ONLY
    assert os.listdir(tmp_path) == ["file"]


def test_leftovers_of_an_earlier_attempt_do_not_hinder(tmp_path):
    left = write_beside(tmp_path / "file", b"left")
    replace_file(tmp_path / "file", b"new")
    assert not left.exists()
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_failed_rename_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "taken", b"new")
    assert os.listdir(tmp_path) == ["taken"]


def test_a_name_of_the_greatest_length_can_be_written(tmp_path):
    name = "n" * 255
    replace_file(tmp_path / name, b"new")
    assert os.listdir(tmp_path) == [name]


@pytest.fixture(params=["links", "no links"])
def links(request, monkeypatch):
    """A file system with links, and one without."""

    def refuse(source, name):
        raise PermissionError(errno.EPERM, "Operation not permitted", str(source))

    if request.param == "no links":
        monkeypatch.setattr(os, "link", refuse)


@pytest.mark.usefixtures("links")
def test_a_new_file_gets_its_name_on_any_file_system(tmp_path):
    take_new_name(write_beside(tmp_path / "file", b"new", OWNER_ONLY), tmp_path / "file")
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.usefixtures("links")
def test_a_new_file_takes_no_name_that_another_has(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        take_new_name(write_beside(tmp_path / "file", b"new"), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"old"
