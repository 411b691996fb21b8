"""The options of `mledger exporter`."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass

from mledger.bookie.client.tls_settings import BookieTls
from mledger.config import ManagedLedgerConfig
from mledger.errors import InvalidConfiguration
from mledger.metastore.errors import InvalidMetadataUrl, InvalidSetting
from mledger.metastore.runtime.logs.loggers import FORMATS, TEXT
from mledger.metastore.session import SESSION_TIMEOUT_S
from mledger.metastore.url import parse_url
from mledger.settings import read_owner_settings

PROGRAM = "mledger exporter"
DEFAULT_PORT = 9470
DEFAULT_RATE = 6_000.0
DEFAULT_INTERVAL_S = 60.0
DEFAULT_WORST = 20
DEFAULT_TIMEOUT_S = 10.0
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ExporterOptions:
    """How an exporter is started; `config` has a broker's default retention and limit of ranges.

    With `ask_bookies` it asks bookies for their disks, over `tls` if that is given.
    """

    metadata: str
    host: str
    port: int
    rate: float
    interval_s: float
    worst: int
    timeout_s: float
    session_timeout_s: float
    config: ManagedLedgerConfig
    log_level: str = "info"
    log_format: str = TEXT
    ask_bookies: bool = False
    tls: BookieTls | None = None


def parse_exporter_options(arguments: Sequence[str], program: str = PROGRAM) -> ExporterOptions:
    """The options of a command line; SystemExit(2) says what is wrong with them."""
    parser = _parser(program)
    args = parser.parse_args(arguments)
    if not 0 <= args.port <= 65535:
        parser.error("--port is a number from 0 to 65,535")
    if args.worst < 0:
        parser.error("--worst is a number of cursors, 0 or more")
    for name in ("rate", "interval", "timeout", "session_timeout"):
        if not 0 < getattr(args, name) < float("inf"):
            parser.error(f"--{name.replace('_', '-')} is a number above 0")
    try:
        settings = read_owner_settings(args.config, args.set)
        metadata = args.metadata or settings.url or os.environ.get("MLEDGER_METADATA", "")
        if not metadata:
            parser.error("--metadata (or MLEDGER_METADATA) is missing: the metadata store's URL, zk://host:port/chroot")
        parse_url(metadata)
    except (InvalidSetting, InvalidConfiguration, InvalidMetadataUrl) as error:
        parser.error(str(error))
    return ExporterOptions(
        metadata=metadata,
        host=args.host,
        port=args.port,
        rate=args.rate,
        interval_s=args.interval,
        worst=args.worst,
        timeout_s=args.timeout,
        session_timeout_s=args.session_timeout,
        config=settings.config,
        log_level=args.log_level,
        log_format=args.log_format,
        ask_bookies=args.ask_bookies,
        tls=settings.client.tls,
    )


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Serves metrics of a whole cluster from its metadata alone, unless --ask-bookies; changes nothing.",
        epilog="The metrics: docs/reference/monitoring.md.",
    )
    parser.add_argument("--metadata", default="", help="URL of the metadata store  [env: MLEDGER_METADATA]")
    parser.add_argument("--host", default=LOOPBACK, help="address to listen on  [default: 127.0.0.1]")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help=f"default: {DEFAULT_PORT}; 0: a free one")
    parser.add_argument(
        "--rate",
        type=float,
        default=DEFAULT_RATE,
        metavar="ZNODES",
        help=f"the most znodes to ask for per second  [default: {DEFAULT_RATE:g}]",
    )
    parser.add_argument(
        "--interval",
        type=float,
        default=DEFAULT_INTERVAL_S,
        metavar="SECONDS",
        help=f"from the start of a round to that of the next  [default: {DEFAULT_INTERVAL_S:g}]",
    )
    parser.add_argument(
        "--worst",
        type=int,
        default=DEFAULT_WORST,
        metavar="N",
        help=f"cursors that are named, by each measure  [default: {DEFAULT_WORST}]",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help=f"of one request for metadata  [default: {DEFAULT_TIMEOUT_S:g}]",
    )
    parser.add_argument(
        "--session-timeout",
        type=float,
        default=SESSION_TIMEOUT_S,
        metavar="SECONDS",
        help=f"of the session with the metadata store  [default: {SESSION_TIMEOUT_S:g}]",
    )
    parser.add_argument("--ask-bookies", action="store_true", help="ask each bookie for the free space of its disks")
    parser.add_argument("--config", metavar="FILE", help="the brokers' broker.conf: default retention, limit of ranges")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one such setting; repeatable")
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    parser.add_argument("--log-format", default=TEXT, choices=FORMATS, help="json: one object per line")
    return parser
