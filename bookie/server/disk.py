"""Whether a bookie takes new entries, by what is left of its disks."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

FREE_MIB = 256


@dataclass(frozen=True, slots=True)
class DiskLimits:
    """When a disk is full, and how often to look. Shares are of the disk's size, 1.0 is none."""

    min_free_bytes: int = FREE_MIB << 20
    full_share: float = 1.0
    warn_share: float = 1.0
    low_water_share: float = 1.0
    look_s: float = 5.0
    stop_when_full: bool = False


@dataclass(frozen=True, slots=True)
class Disk:
    """The fullest of the disks that a bookie writes to, in bytes."""

    size: int
    free: int

    @property
    def used_share(self) -> float:
        """What is not free to the bookie, of all there is."""
        return 1 - self.free / self.size if self.size else 1.0


def plan_read_only(read_only: bool, disk: Disk, limits: DiskLimits) -> bool:
    """Whether a bookie takes no new entries.

    It takes none when less than the least is free or more than the full share is used. It takes them again when twice
    the least is free and the low-water share is not passed: what it did not write for is not at once full again.
    """
    if not read_only:
        return disk.free < limits.min_free_bytes or disk.used_share > limits.full_share
    return disk.free < 2 * limits.min_free_bytes or disk.used_share > limits.low_water_share


def fullest(paths: Sequence[str]) -> Disk:
    """The disk with the least free bytes of those that hold `paths`. OSError."""
    disks = [Disk(each.f_blocks * each.f_frsize, each.f_bavail * each.f_frsize) for each in map(os.statvfs, paths)]
    return min(disks, key=lambda disk: (-disk.used_share, disk.free))
