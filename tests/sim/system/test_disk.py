"""A simulated disk keeps what was synced, and a random part of what was not."""

import os

import pytest

from tests.sim.system.disk import SimSystem
from tests.sim.system.files import SECTOR
from tests.sim.system.loop import Killed, SimLoop

PATH = "/host/data"


@pytest.fixture
def system() -> SimSystem:
    found = SimSystem(SimLoop("disk"))
    found.add_disk("host")
    found.makedirs(PATH)
    return found


def _create(system: SimSystem, name: str, data: bytes, *, sync: bool = True) -> int:
    file = system.open(f"{PATH}/{name}", os.O_CREAT | os.O_RDWR)
    system.pwrite(file, data, 0)
    if sync:
        system.fsync(file)
        system.fsync(system.open(PATH, os.O_RDONLY))
    return file


def _read(system: SimSystem, name: str) -> bytes:
    file = system.open(f"{PATH}/{name}", os.O_RDONLY)
    return system.pread(file, 1 << 20, 0)


def test_what_was_synced_survives_a_power_loss(system):
    _create(system, "a", b"synced")
    system.disks["host"].lose_power()
    assert _read(system, "a") == b"synced"


def test_a_name_whose_directory_was_not_synced_may_be_gone(system):
    outcomes = set()
    for number in range(40):
        file = _create(system, f"{number}", b"x", sync=False)
        system.fsync(file)
        system.disks["host"].lose_power()
        outcomes.add(f"{number}" in system.listdir(PATH))
    assert outcomes == {True, False}


def test_a_file_that_is_renamed_has_one_name_after_a_power_loss(system):
    """A file system's journal has a rename as a whole, or not at all."""
    outcomes = set()
    for number in range(40):
        _create(system, f"old-{number}", b"x")
        system.rename(f"{PATH}/old-{number}", f"{PATH}/new-{number}")
        system.disks["host"].lose_power()
        outcomes.add(tuple(name for name in system.listdir(PATH) if name.endswith(f"-{number}")))
    assert {name[0].partition("-")[0] for name in outcomes} == {"old", "new"}
    assert {len(names) for names in outcomes} == {1}


def test_unsynced_sectors_are_kept_lost_or_mixed(system):
    file = _create(system, "a", bytes(4 * SECTOR))
    outcomes = set()
    for _ in range(60):
        system.pwrite(file, b"1" * 4 * SECTOR, 0)
        system.disks["host"].lose_power()
        found = _read(system, "a")
        outcomes.add("kept" if b"\0" not in found else "lost" if b"1" not in found else "mixed")
        file = system.open(f"{PATH}/a", os.O_RDWR)
        system.pwrite(file, bytes(4 * SECTOR), 0)
        system.fsync(file)
    assert outcomes == {"kept", "lost", "mixed"}


def test_after_a_failed_sync_the_page_cache_shows_what_is_not_on_the_disk(system):
    file = _create(system, "a", b"old")
    system.pwrite(file, b"new", 0)
    system.disks["host"].failing_syncs = 1
    with pytest.raises(OSError, match="Input/output"):
        system.fsync(file)
    assert _read(system, "a") == b"new"
    system.fsync(file)
    system.posix_fadvise(file, 0, 0, system.POSIX_FADV_DONTNEED)
    assert _read(system, "a") == b"old"


def test_a_full_disk_takes_no_more(system):
    system.disks["host"].capacity = 10
    with pytest.raises(OSError, match="No space"):
        _create(system, "a", bytes(11))


def test_a_process_dies_at_the_change_it_was_to_die_at(system):
    system.disks["host"].fuse = 2
    with pytest.raises(Killed):
        _create(system, "a", b"data")
    assert _read(system, "a") == b""


def test_a_disk_that_is_replaced_holds_nothing(system):
    _create(system, "a", b"synced")
    system.disks["host"].wipe()
    assert system.listdir("/host") == []
    assert system.disks["host"].used == 0
