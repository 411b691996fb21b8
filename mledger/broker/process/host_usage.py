"""How busy this machine is, as Linux says it: its processors and network, and the memory of this process.

On other systems, and where `/proc` cannot be read, there are no figures: each is 0 of 0.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from mledger.broker.lookup.broker_records import HostUsage, ResourceUsage
from mledger.metastore.runtime.times import steady_ms
from mledger.process_memory import process_memory

LEAST_MS = 1000
"""Rates are over at least this time."""
_MIB = 1 << 20
_KBIT = 1000
_IDLE = (3, 4)
"""Of the times of a processor: idle, and waiting for a disk."""
_TIMES = 8
_RECEIVED, _SENT = 0, 8


class HostSample(Struct, frozen=True):
    """What was counted until `at_ms`: seconds that processors were busy, bytes of the network; and what there is now.

    `link_kbit` is what the network takes a second, `resident` the bytes of memory of this process.
    """

    at_ms: int
    busy_s: float = 0.0
    processors: int = 0
    received: int = 0
    sent: int = 0
    link_kbit: int = 0
    resident: int = 0


def read_sample(at_ms: int, root: Path = Path("/")) -> HostSample:
    """What the system says now; `root` is where `/proc` and `/sys` are."""
    busy_s, processors = _busy(_text(root / "proc/stat"))
    pages = _text(root / "proc/self/statm").split()
    links = list(_links(root))
    return HostSample(
        at_ms,
        busy_s,
        processors,
        sum(each[0] for each in links),
        sum(each[1] for each in links),
        sum(each[2] for each in links) * _KBIT,
        int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 0,
    )


def plan_usage(before: HostSample, now: HostSample, memory: int) -> HostUsage:
    """The usage between two samples, as Pulsar gives it: percent of a processor, MiB, and kbit a second.

    `memory` are the bytes that this process may have.
    """
    passed_s = max(1, now.at_ms - before.at_ms) / 1000
    return HostUsage(
        cpu=ResourceUsage(100 * max(0.0, now.busy_s - before.busy_s) / passed_s, 100.0 * now.processors),
        memory=ResourceUsage(now.resident / _MIB, memory / _MIB if now.resident else 0.0),
        bandwidth_in=_bandwidth(now.received - before.received, passed_s, now.link_kbit),
        bandwidth_out=_bandwidth(now.sent - before.sent, passed_s, now.link_kbit),
    )


class HostMeter:
    """Measures the usage from one time that it is asked to the next."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root, self._memory = root, process_memory(root)
        self._before = read_sample(steady_ms(), root)
        self._usage = plan_usage(self._before, self._before, self._memory)

    def usage(self) -> HostUsage:
        """The usage since it was asked last, or as it was then if that is not long ago."""
        now_ms = steady_ms()
        if now_ms - self._before.at_ms >= LEAST_MS:
            now = read_sample(now_ms, self._root)
            self._usage, self._before = plan_usage(self._before, now, self._memory), now
        return self._usage


def _bandwidth(size: int, passed_s: float, link_kbit: int) -> ResourceUsage:
    """The counters of an interface begin anew if it does."""
    return ResourceUsage(max(0, size) * 8 / _KBIT / passed_s, float(link_kbit))


def _busy(text: str) -> tuple[float, int]:
    """For how many seconds processors were busy, and how many there are."""
    busy, processors = 0, 0
    for line in text.splitlines():
        if line.startswith("cpu "):
            times = [int(each) for each in line.split()[1 : _TIMES + 1]]
            busy = sum(each for at, each in enumerate(times) if at not in _IDLE)
        elif line.startswith("cpu"):
            processors += 1
    return busy / os.sysconf("SC_CLK_TCK"), processors


def _links(root: Path) -> Iterator[tuple[int, int, int]]:
    """The bytes received and sent of each interface whose speed is known, and its Mbit a second."""
    for line in _text(root / "proc/net/dev").splitlines()[2:]:
        name, _, counted = line.partition(":")
        speed = _text(root / "sys/class/net" / name.strip() / "speed").strip()
        values = counted.split()
        if speed.isdecimal() and int(speed) and len(values) > _SENT:
            yield int(values[_RECEIVED]), int(values[_SENT]), int(speed)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):  # the speed of some interfaces cannot be read
        return ""
