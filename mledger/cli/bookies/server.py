"""`mledger bookie run`: runs a bookie in this process."""

from mledger.cli.server_command import ServerMain, given_metadata, server_command
from mledger.metastore.runtime.packages import check_rocksdb


def _load() -> ServerMain:
    check_rocksdb()
    from mledger.bookie.server.process.main import main

    return main


run = server_command(
    "run",
    _load,
    summary="Run a bookie in the foreground until SIGTERM or SIGINT; --help shows its OPTIONS.",
    epilog="Example: mledger bookie run --dir /data/bookie --port 3181 --config bookkeeper.conf",
    given=given_metadata,
)
