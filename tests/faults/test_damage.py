"""Damage that the hostile runs do to a bookie's files."""

import random

from mledger.bookie.server.storage.journal import FRAMES, Journal, file_path, scan_file
from tests.faults.soak import damage

SALT = b"salt of 16 bytes"


def write(directory, first, count):
    """Write records to the first file of a new journal; returns that file's path, and where its records end."""
    directory.mkdir()
    journal = Journal(str(directory), SALT, 1 << 20, 0)
    journal.open()
    for sequence in range(first, first + count):
        journal.append(sequence, FRAMES, [bytes(5000)])
    journal.close()
    return file_path(str(directory), 1), scan_file(str(directory), 1, SALT).end


def test_bytes_change_in_the_records_of_a_reused_file_and_not_in_older_ones_behind_them(tmp_path, monkeypatch):
    """A bookie writes over those, and the change that is taken back would damage what is there then."""
    monkeypatch.setattr(damage, "_salt", lambda _: SALT)
    reused, _ = write(tmp_path / "journal", 1, 20)
    newer, end = write(tmp_path / "newer", 101, 3)
    with open(newer, "rb") as source, open(reused, "r+b") as target:
        target.write(source.read(end))
    flips = damage.flip_in_stored_entries(tmp_path, random.Random(7), 100)
    assert len(flips) == 2
    assert all(each.offset < end for each in flips)
