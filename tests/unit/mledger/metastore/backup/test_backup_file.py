"""Backup files: what is written is read again, and a truncated or changed file is refused."""

import contextlib
import gzip
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.metastore.backup.backup_file import (
    BackupHead,
    BackupNode,
    BackupWriter,
    InvalidBackup,
    check_backup,
    create,
    read_backup,
)

HEAD = BackupHead("zk://127.0.0.1:2181", "2026-01-31T12:00:00Z", "/")
NODES = [
    BackupNode("/", b"", 0, ("world:anyone:crwda",)),
    BackupNode("/a", b"\x00\xff", 3, ("digest:me:secret:crwda", "world:anyone:r")),
    BackupNode("/a/\u00e9 \u2028", b"x" * 100, 1 << 30, (), ephemeral=True),
]


def write(path, nodes=NODES) -> bytes:
    with create(path) as file:
        writer = BackupWriter(file, HEAD)
        for node in nodes:
            writer.add(node)
        writer.end()
    return path.read_bytes()


@pytest.mark.parametrize("name", ["backup.jsonl", "backup.jsonl.gz"])
def test_what_is_written_is_read_again(tmp_path, name):
    path = tmp_path / name
    data = write(path)
    assert (data[:2] == b"\x1f\x8b") is name.endswith(".gz")
    assert check_backup(path) == (HEAD, 3)
    found = list(read_backup(path))
    assert found[0].acl == ()  # everybody: not worth mentioning
    assert found[1:] == NODES[1:]


@given(st.binary(max_size=300), st.integers(0, 1 << 31))
def test_any_data_is_read_back(tmp_path_factory, data, version):
    path = tmp_path_factory.mktemp("backup") / "b"
    node = BackupNode("/x", data, version)
    write(path, [node])
    assert list(read_backup(path)) == [node]


@pytest.mark.parametrize("name", ["backup.json", "backup.gz"])
def test_only_its_owner_may_read_a_file(tmp_path, name):
    with create(tmp_path / name):
        pass
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_a_file_is_never_overwritten(tmp_path):
    path = tmp_path / "b"
    write(path)
    with pytest.raises(FileExistsError):
        create(path)


def test_every_truncation_and_every_flipped_byte_is_refused(tmp_path):
    data = write(tmp_path / "whole")
    path = tmp_path / "damaged"
    for at in range(len(data)):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(InvalidBackup):
                check_backup(path)


@pytest.mark.parametrize("more", [b"\n", b"{}\n", b'{"path": "/b", "version": 0, "data": ""}\n'])
def test_lines_after_the_last_are_refused(tmp_path, more):
    path = tmp_path / "b"
    data = write(path)
    path.write_bytes(data + more)
    with pytest.raises(InvalidBackup):
        check_backup(path)


def test_a_truncated_compressed_file_is_refused(tmp_path):
    path = tmp_path / "b.gz"
    data = write(path)
    path.write_bytes(data[:-10])
    with pytest.raises(InvalidBackup):
        check_backup(path)


def test_every_truncation_and_every_flipped_byte_of_a_compressed_file_is_refused(tmp_path):
    """Whatever the compression's own checks raise; what only changes its head's hints, as the time, is no damage."""
    path = tmp_path / "b.gz"
    data = write(path)
    for at in range(len(data)):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]):
            path.write_bytes(damaged)
            with contextlib.suppress(InvalidBackup):
                assert check_backup(path) == (HEAD, 3)


def test_a_file_that_is_not_compressed_as_its_name_says_is_refused(tmp_path):
    path = tmp_path / "b"
    write(path)
    with pytest.raises(InvalidBackup, match="not a metadata backup"):
        check_backup(path.rename(tmp_path / "b.gz"))


def test_other_files_and_other_versions_are_refused(tmp_path):
    path = tmp_path / "b"
    for text in (b"", b"hello\n", b"[]\n", b'{"format": "other"}\n'):
        path.write_bytes(text)
        with pytest.raises(InvalidBackup, match="not a metadata backup"):
            check_backup(path)
    path.write_bytes(b'{"format": "mledger metadata backup", "version": 2}\n')
    with pytest.raises(InvalidBackup, match="version 2"):
        check_backup(path)
    compressed = tmp_path / "c.gz"
    compressed.write_bytes(gzip.compress(b"x"))
    with pytest.raises(InvalidBackup):
        check_backup(compressed)
