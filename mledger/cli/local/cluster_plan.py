"""Decides which processes `mledger up` starts, and with which options; starts nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mledger.cli.local.cluster_state import BOOKIE, BROKER, MEMORY, ROCKSDB, ZOOKEEPER, ClusterState, LocalClusterError
from mledger.known_settings import SINGLE_COPY
from mledger.metastore.errors import InvalidMetadataUrl
from mledger.metastore.url import MemoryUrl, RocksDbUrl, SplitUrl, ZooKeeperUrl, parse_url

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class MetadataPlan:
    """The metadata store of a cluster: a part to start, or an external ensemble (`part` empty)."""

    part: str
    address: str = ""


def plan_metadata(state: ClusterState, url: str | None, directory: Path) -> MetadataPlan:
    """The metadata store for `up` in `directory`: that of `url`, else the existing one, else a ZooKeeper.

    Raises InvalidMetadataUrl, and LocalClusterError if the cluster has another store, or had one in
    memory and lost it.
    """
    plan = _asked_for(url, directory)
    known = state.metadata
    if known is None and not state.ensemble:
        return plan or MetadataPlan(ZOOKEEPER)
    has = MetadataPlan(known.name, known.address) if known is not None else MetadataPlan("", state.ensemble)
    if plan is not None and (plan.part, plan.address or has.address) != (has.part, has.address):
        raise LocalClusterError(
            f"the cluster in {directory} has its metadata in {state.url}, not in {url}: omit --metadata, or use "
            "another --dir"
        )
    if has.part == MEMORY and known is not None and known.process is None and state.bookies:
        raise LocalClusterError(
            f"the cluster in {directory} had its metadata in memory and lost it: stop the cluster with `mledger down "
            f"--dir {directory}` and remove the directory"
        )
    return has


def _asked_for(url: str | None, directory: Path) -> MetadataPlan | None:
    if url is None:
        return None
    match parse_url(url):
        case ZooKeeperUrl() | SplitUrl() as ensemble:
            return MetadataPlan("", str(ensemble))
        case RocksDbUrl(path):
            return MetadataPlan(ROCKSDB, path)
        case MemoryUrl(""):
            return MetadataPlan(MEMORY, str(directory / MEMORY))
    raise InvalidMetadataUrl(f"{url!r} names the memory of another process: use memory:, then the URL that `up` prints")


OWN_TO_EACH = (
    "advertisedAddress",
    "bookieId",
    "bookiePort",
    "httpServerEnabled",
    "journalDirectories",
    "journalDirectory",
    "ledgerDirectories",
    "listeningInterface",
    "metadataServiceUri",
    "prometheusStatsHttpPort",
    "useHostNameAsBookieID",
    "zkLedgersRootPath",
    "zkServers",
)
"""Settings that bookies on one machine cannot share, or that `up` decides: cleared, whatever the file says."""


def plan_bookie_options(
    config_file: Path | None, assignments: Sequence[str], metrics: bool, log_format: str
) -> list[str]:
    """The options of each bookie, in addition to its metadata store and directory."""
    options = ["--log-format", log_format]
    if config_file is not None:
        options += ["--config", str(config_file.absolute())]
    for assignment in (*assignments, *(f"{key}=" for key in OWN_TO_EACH)):
        options += ["--set", assignment]
    return [*options, "--metrics-port", "0"] if metrics else options


OWN_TO_EACH_BROKER = ("advertisedAddress", "bindAddress", "brokerServicePort", "metadataStoreUrl", "zookeeperServers")
"""Settings of a broker.conf that `up` decides: cleared, whatever the file says."""


def plan_broker_options(
    config_file: Path | None,
    assignments: Sequence[str],
    log_format: str,
    *,
    single_copy: bool = False,
) -> list[str]:
    """The options of each broker, in addition to its metadata store and port.

    It serves HTTP on a free port: `mledger topics stats` asks there.

    `single_copy`: there is one bookie, and no setting says how many copies new ledgers have.
    """
    options = ["--host", LOOPBACK, "--log-format", log_format]
    if config_file is not None:
        options += ["--config", str(config_file.absolute())]
    defaults = SINGLE_COPY if single_copy else ()
    for assignment in (*defaults, *assignments, *(f"{key}=" for key in OWN_TO_EACH_BROKER)):
        options += ["--set", assignment]
    return [*options, "--metrics-port", "0"]


@dataclass(frozen=True, slots=True)
class PlannedServer:
    """A bookie or a broker to start: its module and its arguments."""

    name: str
    module: str
    arguments: tuple[str, ...]


def plan_bookies(state: ClusterState, directory: Path, count: int, options: Sequence[str]) -> list[PlannedServer]:
    """Those of bookie-1 to bookie-`count` that do not run."""
    return [
        PlannedServer(
            name,
            "mledger.bookie.server",
            ("--metadata", state.url, "--dir", str(directory / name / "data"), *options),
        )
        for name in _not_running(state, BOOKIE, count)
    ]


def plan_brokers(state: ClusterState, count: int, first_port: int, options: Sequence[str]) -> list[PlannedServer]:
    """Those of broker-1 to broker-`count` that do not run.

    Their ports are `first_port` and those after it; with 0 each has the port that it had before, or a free one.
    """
    planned = []
    for name in _not_running(state, BROKER, count):
        known = state.part(name)
        port = known.address.rpartition(":")[2] if known is not None else "0"
        if first_port:
            port = str(first_port + int(name.rpartition("-")[2]) - 1)
        arguments = ("--metadata", state.url, "--port", port, *options)
        planned.append(PlannedServer(name, "mledger.broker.process.main", arguments))
    return planned


def _not_running(state: ClusterState, kind: str, count: int) -> Iterator[str]:
    for name in (f"{kind}-{number}" for number in range(1, count + 1)):
        part = state.part(name)
        if part is None or part.process is None:
            yield name
