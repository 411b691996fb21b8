"""Of a log, only what follows the last whole write is cut off, and only if no whole write follows the damage."""

import struct

import google_crc32c
import pytest

from mledger.metastore.rocksdb.log_tail import BLOCK, FIRST, LAST, MIDDLE, plan_cut

HEAD = 7
FULL = 1


def record(kind, data):
    """A record as RocksDB writes it."""
    crc = google_crc32c.value(bytes((kind,)) + data)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<IHB", masked, len(data), kind) + data


def write(size):
    """A write that fills blocks from the start of one."""
    room = BLOCK - HEAD
    pieces = [b"x" * min(room, size - at) for at in range(0, size, room)]
    kinds = [FIRST, *[MIDDLE] * (len(pieces) - 2), LAST]
    return b"".join(map(record, kinds, pieces))


def without(data, at, count):
    """The data with zeros in place of some bytes, as of pages that were not written."""
    return data[:at] + bytes(count) + data[at + count :]


BEFORE = record(FULL, b"x" * (BLOCK - 2 * HEAD - 3)) + record(FULL, b"abc")
LARGE = write(3 * BLOCK)


@pytest.mark.parametrize("at", [0, 4096, BLOCK, 2 * BLOCK + 100, 3 * BLOCK - 8192])
def test_a_last_write_that_lacks_pages_is_cut_off(at):
    assert plan_cut(BEFORE + without(LARGE, at, 8192)) == len(BEFORE)


def test_a_last_write_in_one_record_that_lacks_its_end_is_cut_off():
    assert plan_cut(BEFORE + without(record(FULL, b"x" * 9000), 4096, 4911)) == len(BEFORE)


def test_a_log_whose_only_write_is_torn_becomes_empty():
    assert plan_cut(without(LARGE, 4096, 4096)) == 0


def test_a_last_write_that_ends_early_is_cut_off():
    assert plan_cut(BEFORE + LARGE[:-5]) == len(BEFORE)


@pytest.mark.parametrize("data", [b"", BEFORE, BEFORE + LARGE])
def test_a_log_without_damage_stays(data):
    assert plan_cut(data) is None


def test_damage_with_a_whole_write_behind_it_stays():
    assert plan_cut(without(BEFORE, 4096, 4096) + LARGE) is None


def test_damage_with_a_write_in_one_record_behind_it_stays():
    damaged = BEFORE + without(LARGE, 4096, 4096)
    assert plan_cut(damaged + bytes(-len(damaged) % BLOCK) + record(FULL, b"later")) is None


def test_damage_with_a_whole_write_behind_it_in_the_same_block_stays():
    log = record(FULL, b"x" * 9000) + record(FULL, b"later") + write(BLOCK)[HEAD:]
    assert plan_cut(without(log, 4096, 4096)) is None


def test_the_end_of_a_block_that_holds_no_head_is_passed():
    short = record(FULL, bytes(BLOCK - HEAD - 5)) + bytes(5)
    assert plan_cut(short + record(FULL, b"abc") + without(record(FULL, b"y" * 600), 100, 300)) == BLOCK + HEAD + 3
