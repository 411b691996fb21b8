"""What a bookie process is told when it is started."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass

from bookie import wire
from bookie.server.bookie import BookieConfig
from bookie.server.index import IndexConfig
from metastore.paths import LEDGERS

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Options:
    """Times in seconds."""

    metadata: str
    directory: str
    host: str = "127.0.0.1"
    port: int = 0
    bookie_id: str = ""
    ledgers_root: str = LEDGERS
    session_timeout: float = 10.0
    garbage_interval: float = 60.0
    read_only: bool = False
    min_free_bytes: int = 256 * _MIB
    auth: str = ""
    log_level: str = "info"
    storage: BookieConfig = BookieConfig()  # noqa: RUF009 - frozen


def parse_options(arguments: Sequence[str]) -> Options:
    """The options of a command line; SystemExit(2) says what is wrong with it."""
    parser = _parser()
    args = parser.parse_args(arguments)
    if not args.metadata:
        parser.error("--metadata (or MLEDGER_METADATA) is missing: the metadata store's URL, zk://host:port/chroot")
    for name in ("journal_mb", "memtable_mb", "max_frame", "session_timeout", "gc_interval"):
        if getattr(args, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} must be above 0")
    memory = IndexConfig(memtable_bytes=args.memtable_mb * _MIB)
    return Options(
        metadata=args.metadata,
        directory=args.dir,
        host=args.host,
        port=args.port,
        bookie_id=args.bookie_id,
        ledgers_root=args.ledgers_root,
        session_timeout=args.session_timeout,
        garbage_interval=args.gc_interval,
        read_only=args.read_only,
        min_free_bytes=args.min_free_mb * _MIB,
        auth=args.auth_provider,
        log_level=args.log_level,
        storage=BookieConfig(args.journal_mb * _MIB, args.max_frame, memory),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bookie.server", description="A bookie: keeps entries of ledgers.")
    parser.add_argument("--metadata", default=os.environ.get("MLEDGER_METADATA", ""), help="URL of the metadata store")
    parser.add_argument("--dir", required=True, help="the bookie's directory; made when it is missing")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on and to announce")
    parser.add_argument("--port", type=int, default=0, help="0: the directory's own, or a free one at its first start")
    parser.add_argument("--bookie-id", default="", help="default: host:port")
    parser.add_argument("--ledgers-root", default=LEDGERS, help="where the metadata store has the ledgers")
    parser.add_argument("--session-timeout", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--gc-interval", type=float, default=60.0, metavar="SECONDS", help="between collections")
    parser.add_argument("--journal-mb", type=int, default=64, help="MiB of one journal file")
    parser.add_argument("--memtable-mb", type=int, default=8, help="MiB of index rows gathered before they are written")
    parser.add_argument("--min-free-mb", type=int, default=256, help="MiB free on disk below which it is read-only")
    parser.add_argument("--max-frame", type=int, default=wire.MAX_FRAME, metavar="BYTES", help="largest request")
    parser.add_argument("--read-only", action="store_true", help="take no new entries but recovery's")
    parser.add_argument("--auth-provider", default="", metavar="MODULE:FACTORY", help="makes a connection's provider")
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    return parser
