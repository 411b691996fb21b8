"""What a soak measures beside its load: memory and disk of processes over time, and the disk's own syncs."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy
import psutil

_PROBE_S = 0.02
_PROBE_BYTES = b"x" * 4096


@dataclass(frozen=True, slots=True)
class Stall:
    """A slow append: when it was acknowledged (time.time()), and how many seconds it took."""

    ended: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Sync:
    """One write and sync of a plain file: when it began (time.time()), and how many seconds it took."""

    begun: float
    seconds: float


def unexplained(stalls: Sequence[Stall], syncs: Sequence[Sync], share: float = 0.5) -> list[Stall]:
    """The stalls during which no sync of a plain file on the same disk took at least `share` as long."""
    found = []
    for stall in stalls:
        begun = stall.ended - stall.seconds
        beside = [sync.seconds for sync in syncs if sync.begun <= stall.ended and sync.begun + sync.seconds >= begun]
        if max(beside, default=0.0) < share * stall.seconds:
            found.append(stall)
    return found


def slope_a_minute(samples: Sequence[tuple[float, float]]) -> float:
    """The slope, per minute, of the line that best fits (seconds, value); 0 for fewer than two."""
    if len(samples) < 2:
        return 0.0
    seconds, values = zip(*samples, strict=True)
    return float(numpy.polyfit(seconds, values, 1)[0]) * 60


class DiskProbe(threading.Thread):
    """Writes and syncs a plain file, again and again, until stopped."""

    def __init__(self, directory: Path) -> None:
        super().__init__(name="disk-probe", daemon=True)
        self.syncs: list[Sync] = []
        self._path, self._end = directory / "probe", threading.Event()

    def run(self) -> None:
        """Run until stopped."""
        file = os.open(self._path, os.O_CREAT | os.O_RDWR)
        try:
            while not self._end.wait(_PROBE_S):
                wall, begun = time.time(), time.monotonic()
                os.pwrite(file, _PROBE_BYTES, 0)
                os.fdatasync(file)
                self.syncs.append(Sync(wall, time.monotonic() - begun))
        finally:
            os.close(file)

    def stop(self) -> None:
        """End it."""
        self._end.set()
        self.join()


@dataclass
class Sampler:
    """Resident memory of processes, without pages of mapped files, and disk: each as (seconds, bytes)."""

    pids: Mapping[str, int]
    disks: Mapping[str, Callable[[], int]]
    memory: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    disk: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def sample(self, seconds: float) -> None:
        """Take one of each."""
        for name, pid in self.pids.items():
            found = psutil.Process(pid).memory_info()
            self.memory.setdefault(name, []).append((seconds, float(found.rss - found.shared)))
        for name, used in self.disks.items():
            self.disk.setdefault(name, []).append((seconds, float(used())))


def bytes_written(pid: int) -> int:
    """Bytes that a process has had written to disk (`write_bytes` of /proc/PID/io)."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        name, _, value = line.partition(": ")
        if name == "write_bytes":
            return int(value)
    raise ValueError(f"/proc/{pid}/io has no write_bytes")


def cpu_waited() -> float:
    """Seconds so far in which some process of the machine waited for a core; 0 if Linux does not say."""
    try:
        some = Path("/proc/pressure/cpu").read_text().splitlines()[0]
    except (OSError, IndexError):
        return 0.0
    return int(some.rpartition("total=")[2]) / 1e6
