"""The options of a bookie process: command-line options win over `--set`, which wins over the file of `--config`."""

import argparse
import math
import os
from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct

from mledger.bookie import wire
from mledger.bookie.server.process.bookie import BookieConfig
from mledger.bookie.server.process.cookie_check import Relocation
from mledger.bookie.server.process.excess_ledgers import EVERY_S
from mledger.bookie.server.process.garbage import EVERY_TIME, GRACE_S, Compaction
from mledger.bookie.server.process.settings import LOOPBACK, BookieSettings
from mledger.bookie.server.serving.tls import TlsSettings
from mledger.bookie.server.storage.directories.disk import FREE_MIB, DiskLimits
from mledger.bookie.server.storage.journal import MOST_TURN_BYTES
from mledger.bookie.server.storage.rows.index_options import IndexConfig
from mledger.metastore.errors import InvalidSetting
from mledger.metastore.records.paths import LEDGERS
from mledger.metastore.runtime.logs.loggers import FORMATS, TEXT
from mledger.metastore.runtime.settings import Settings, read_settings
from mledger.metastore.session import SESSION_TIMEOUT_S

T = TypeVar("T")

_MIB = 1 << 20
_DEFAULTS = BookieConfig()

MOST_CONNECTIONS = 10_000
PROGRAM = "mledger bookie run"


class BookieOptions(Struct, frozen=True):
    """Times in seconds. `announced` is the address to register, `metrics` the host and port of the HTTP server.

    `local_transport`: clients on the same event loop connect without a socket. `relocation`: whether the directory may
    have been elsewhere before.
    """

    metadata: str
    directory: str
    journal: str = ""
    host: str = LOOPBACK
    announced: str = LOOPBACK
    port: int = 0
    bookie_id: str = ""
    ledgers_root: str = LEDGERS
    session_timeout: float = SESSION_TIMEOUT_S
    garbage_interval: float = 20.0
    garbage_grace: float = GRACE_S
    overreplicated_interval: float = EVERY_S
    compactions: tuple[Compaction, ...] = EVERY_TIME
    read_only: bool = False
    disk: DiskLimits = DiskLimits()
    max_connections: int = MOST_CONNECTIONS
    auth: str = ""
    roles: tuple[str, ...] = ()
    tls: TlsSettings | None = None
    metrics: tuple[str, int] | None = None
    log_level: str = "info"
    log_format: str = TEXT
    storage: BookieConfig = _DEFAULTS
    local_transport: bool = False
    relocation: Relocation = Relocation.REFUSED
    settings: Settings | None = None


def parse_options(arguments: Sequence[str], program: str = PROGRAM) -> BookieOptions:
    """The options of a command line and its settings; SystemExit(2) says what is wrong with them."""
    parser = _parser(program)
    args = parser.parse_args(arguments)
    for name in ("journal_mb", "memtable_mb", "max_frame", "max_connections", "session_timeout", "gc_interval"):
        value = getattr(args, name)
        if value is not None and not 0 < value < math.inf:  # neither infinite nor "nan"
            parser.error(f"--{name.replace('_', '-')} must be a number above 0")
    if args.max_frame is not None and args.max_frame > wire.LARGEST_FRAME:
        parser.error(f"--max-frame is at most {wire.LARGEST_FRAME}")
    if args.gc_grace is not None and not 0 <= args.gc_grace < math.inf:
        parser.error("--gc-grace must be a number that is not below 0")
    try:
        settings = read_settings(args.config, args.set)
        options = _options(args, settings, BookieSettings(settings))
    except InvalidSetting as error:
        parser.error(str(error))
    if not options.metadata:
        parser.error("--metadata (or MLEDGER_METADATA) is missing: the metadata store's URL, zk://host:port/chroot")
    if not options.directory:
        parser.error("--dir (or ledgerDirectories) is missing: the bookie's directory")
    return options


def _options(args: argparse.Namespace, settings: Settings, given: BookieSettings) -> BookieOptions:
    url, root = given.metadata
    listen, announced = given.addresses
    port = given.port
    metrics, journal = given.metrics, given.journal
    if args.metrics_port is not None:
        metrics = args.metrics_host or LOOPBACK, args.metrics_port
    elif metrics is not None and args.metrics_host:
        metrics = args.metrics_host, metrics[1]
    return BookieOptions(
        metadata=args.metadata or url or os.environ.get("MLEDGER_METADATA", ""),
        directory=_chosen(args.dir, given.directory),
        journal=_chosen(args.journal_dir, journal if not args.dir else ""),
        host=args.host or listen or LOOPBACK,
        announced=args.host or announced or LOOPBACK,
        port=_chosen(args.port, port or 0),
        bookie_id=_chosen(args.bookie_id, given.text("bookieId")),
        ledgers_root=args.ledgers_root or root or LEDGERS,
        session_timeout=_chosen(args.session_timeout, given.seconds("zkTimeout", SESSION_TIMEOUT_S)),
        garbage_interval=_chosen(args.gc_interval, given.seconds("gcWaitTime", 20.0)),
        garbage_grace=_chosen(args.gc_grace, given.seconds("mledgerGcGraceTime", GRACE_S, low=0)),
        overreplicated_interval=given.seconds("gcOverreplicatedLedgerWaitTime", EVERY_S, low=-1),
        compactions=_compactions(settings),
        read_only=given.flag("forceReadOnlyBookie", False) or args.read_only,
        disk=_disk_limits(args, settings, given),
        max_connections=_chosen(args.max_connections, given.integer("mledgerMaxConnections", MOST_CONNECTIONS)),
        auth=_chosen(args.auth_provider, given.auth),
        roles=given.roles if not args.auth_provider else (),
        tls=given.tls,
        metrics=metrics,
        log_level=args.log_level,
        log_format=args.log_format,
        storage=_storage(args, given),
        settings=settings,
    )


def _chosen(option: T | None, setting: T) -> T:
    """The option if there is one, else the setting, which has been checked in either case."""
    return setting if option is None or option == "" else option


def _storage(args: argparse.Namespace, given: BookieSettings) -> BookieConfig:
    largest = given.journal_file_bytes or _DEFAULTS.journal_file_bytes
    memtable = _DEFAULTS.index.memtable_bytes if args.memtable_mb is None else args.memtable_mb * _MIB
    return BookieConfig(
        # a file is freed as a whole: files of BookKeeper's size would keep deleted entries for too long
        journal_file_bytes=args.journal_mb * _MIB if args.journal_mb else min(largest, _DEFAULTS.journal_file_bytes),
        max_frame=_chosen(args.max_frame, given.max_frame or wire.MAX_FRAME),
        index=IndexConfig(memtable_bytes=memtable),
        turn_bytes=min(given.integer("journalMaxMemorySizeMb", _DEFAULTS.turn_bytes, unit=_MIB), MOST_TURN_BYTES),
    )


def _disk_limits(args: argparse.Namespace, settings: Settings, given: BookieSettings) -> DiskLimits:
    full = given.share("diskUsageThreshold", 1.0)
    warn = given.share("diskUsageWarnThreshold", min(full, 0.9))
    low = given.share("diskUsageLwmThreshold", full)
    if low > full:
        raise InvalidSetting(
            f"{settings.where('diskUsageLwmThreshold')}: diskUsageLwmThreshold {low:g} is above diskUsageThreshold "
            f"{full:g}: it says from where on entries are taken again"
        )
    free = FREE_MIB if args.min_free_mb is None else args.min_free_mb
    look = given.seconds("diskCheckInterval", DiskLimits().look_s)
    return DiskLimits(free * _MIB, full, warn, low, look, not given.flag("readOnlyModeEnabled", True))


def _compactions(settings: Settings) -> tuple[Compaction, ...]:
    """BookKeeper's minor and major compaction if a setting configures either; else both at each collection."""
    kinds = (("minor", 0.2, 3600.0), ("major", 0.8, 86400.0))
    keys = [(f"{kind}CompactionThreshold", f"{kind}CompactionInterval") for kind, _, _ in kinds]
    if not any(key in settings.given for pair in keys for key in pair):
        return EVERY_TIME
    found = [
        Compaction(settings.take(threshold, _share_or_none, share), settings.take(interval, _seconds_or_none, seconds))
        for (threshold, interval), (_, share, seconds) in zip(keys, kinds, strict=True)
    ]
    return tuple(kind for kind in found if kind.share > 0 and kind.every_s > 0)


def _share_or_none(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 2.0
    if not value <= 1:
        raise ValueError("a share up to 1 is needed; at or below 0 there is no such compaction")
    return max(value, 0.0)


def _seconds_or_none(text: str) -> float:
    try:
        return max(float(int(text)), 0.0)
    except ValueError:
        raise ValueError("seconds are needed; at or below 0 there is no such compaction") from None


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Runs a bookie, which stores entries of ledgers.",
        epilog="Options win over --set, --set over --config. Keys: docs/reference/configuration.md.",
    )
    parser.add_argument("--config", metavar="FILE", help="settings under BookKeeper's names: a bookkeeper.conf")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one such setting; repeatable")
    parser.add_argument("--metadata", default="", help="URL of the metadata store  [env: MLEDGER_METADATA]")
    parser.add_argument("--dir", default="", help="the bookie's directory, created if missing: journal and index")
    parser.add_argument("--journal-dir", default="", metavar="DIR", help="the journal's own directory, on another disk")
    parser.add_argument("--host", default="", help="address to listen on and to announce  [default: 127.0.0.1]")
    parser.add_argument("--port", type=int, help="0: the directory's own, or a free one at its first start")
    parser.add_argument("--bookie-id", default="", help="default: host:port")
    parser.add_argument("--ledgers-root", default="", help="the ledgers' root path in the metadata store")
    parser.add_argument("--session-timeout", type=float, metavar="SECONDS", help=f"default: {SESSION_TIMEOUT_S:g}")
    parser.add_argument("--gc-interval", type=float, metavar="SECONDS", help="between collections; default: 20")
    parser.add_argument(
        "--gc-grace", type=float, metavar="SECONDS", help="a ledger goes after so long without metadata; default: 60"
    )
    parser.add_argument("--journal-mb", type=int, help="MiB of one journal file; default: 64")
    parser.add_argument("--memtable-mb", type=int, help="MiB of index rows gathered before a write; default: 8")
    parser.add_argument("--min-free-mb", type=int, help="MiB free on disk below which it is read-only; default: 256")
    parser.add_argument("--max-frame", type=int, metavar="BYTES", help=f"largest request; default: {wire.MAX_FRAME}")
    parser.add_argument("--max-connections", type=int, help="more are closed at once; default: 10000")
    parser.add_argument("--read-only", action="store_true", help="take no new entries but recovery's")
    parser.add_argument("--auth-provider", default="", metavar="MODULE:FACTORY", help="makes a connection's provider")
    parser.add_argument("--metrics-port", type=int, metavar="PORT", help="serve metrics and health; 0: a free one")
    parser.add_argument("--metrics-host", default="", metavar="HOST", help="default: 127.0.0.1")
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    parser.add_argument("--log-format", default=TEXT, choices=FORMATS, help="json: one object per line")
    return parser
