"""The processes of a cluster on this machine, as its directory lists them.

A process counts as ours only if its pid has the recorded start, so that a pid reused by another program is never
signalled. On Linux the start is told by the boot and the time since it: times since 1970 change when the clock is set.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from mledger.metastore.errors import MledgerError

ZOOKEEPER = "zookeeper"
ROCKSDB = "rocksdb"
MEMORY = "memory"
METADATA_PARTS = (ZOOKEEPER, ROCKSDB, MEMORY)
BOOKIE = "bookie"
BROKER = "broker"
CLOCK_TOLERANCE_S = 2.0  # the start time is computed from the boot time, which clock corrections change
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class LocalClusterError(MledgerError):
    """A process of the cluster did not start, or the cluster's directory is not usable."""


@dataclass(frozen=True, slots=True)
class Part:
    """One process of the cluster; `started` is its start time in seconds since 1970.

    `start` tells it without the clock (`start_of`), empty in a file of an older version.
    `address` is host:port, or the directory of a RocksDB or memory metadata server. `metrics` is
    the host:port of its metrics, empty if it serves none.
    """

    name: str
    address: str
    pid: int
    started: float
    metrics: str = ""
    start: str = ""

    @property
    def kind(self) -> str:
        """What it is: `bookie` or `broker`, else the name of its metadata store."""
        return self.name.partition("-")[0]

    @property
    def process(self) -> psutil.Process | None:
        """The running process; None if it has ended."""
        try:
            found = psutil.Process(self.pid)
            by_clock = abs(found.create_time() - self.started) < CLOCK_TOLERANCE_S
            ours = start_of(found) == self.start if self.start else by_clock
            return found if ours and found.status() != psutil.STATUS_ZOMBIE else None
        except (psutil.NoSuchProcess, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The parts of the cluster, metadata store first; `ensemble` is the URL of an external one.

    `starting` are processes that do not serve yet. They stay there if `up` was killed meanwhile.
    """

    parts: tuple[Part, ...] = ()
    ensemble: str = ""
    starting: tuple[Part, ...] = ()

    @property
    def metadata(self) -> Part | None:
        """The part that is the metadata store; None before its start, and with an external ensemble."""
        return next((part for part in self.parts if part.name in METADATA_PARTS), None)

    @property
    def url(self) -> str:
        """The cluster's metadata URL; empty before the metadata store is started."""
        part = self.metadata
        if part is None:
            return self.ensemble
        return f"zk://{part.address}" if part.name == ZOOKEEPER else f"rocksdb:{part.address}"

    @property
    def bookies(self) -> tuple[Part, ...]:
        """The parts that are bookies."""
        return tuple(part for part in self.parts if part.kind == BOOKIE)

    @property
    def brokers(self) -> tuple[Part, ...]:
        """The parts that are brokers."""
        return tuple(part for part in self.parts if part.kind == BROKER)

    @property
    def service_url(self) -> str:
        """The URL of all brokers, for Pulsar's clients; empty if there are none."""
        return f"pulsar://{','.join(part.address for part in self.brokers)}" if self.brokers else ""

    def part(self, name: str) -> Part | None:
        """The part `name`, running or not."""
        return next((part for part in self.parts if part.name == name), None)

    def without_stopped_brokers(self) -> "ClusterState":
        """The state without brokers that do not run."""
        kept = tuple(part for part in self.parts if part.kind != BROKER or part.process is not None)
        return replace(self, parts=kept)

    def with_part(self, part: Part) -> "ClusterState":
        """The state with `part`, which serves, in place of the part with the same name."""
        others = [other for other in self.parts if other.name != part.name]
        starting = tuple(other for other in self.starting if other.pid != part.pid)
        return replace(self, parts=tuple(sorted([*others, part], key=_order)), starting=starting)


def _order(part: Part) -> tuple[int, int, str]:
    rank = {BOOKIE: 1, BROKER: 2}.get(part.kind, 0)
    return (rank, len(part.name), part.name)


def start_of(process: psutil.Process) -> str:
    """The boot and the time since it at which the process started; empty on systems that do not tell the boot."""
    try:
        boot = BOOT_ID.read_text().strip()
    except OSError:
        return ""
    return f"{boot} {process.create_time() - psutil.boot_time():.2f}"
