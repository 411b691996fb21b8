"""`mledger standalone`: Pulsar on this machine, in this process."""

from mledger.cli.server_command import ServerMain, server_command
from mledger.cli.shared.context import CommandContext
from mledger.metastore.runtime.packages import check_rocksdb
from mledger.metastore.runtime.processes.gc_pause import imports_uncollected

JSON = "json"


def _load() -> ServerMain:
    check_rocksdb()
    with imports_uncollected():
        from mledger.standalone.main import main

    return main


def _given(context: CommandContext) -> tuple[str, ...]:
    """--metadata and --output before the command; a variable left in the shell must not decide where a cluster is."""
    metadata = ("--metadata", context.metadata) if context.metadata else ()
    return (*metadata, "--output", JSON) if context.output_format == JSON else metadata


standalone = server_command(
    "standalone",
    _load,
    summary="Run Pulsar in one process, in the foreground, until SIGTERM or SIGINT; --help shows its OPTIONS.",
    epilog="Example: mledger standalone --ephemeral --port 0 --http-port 0",
    given=_given,
)
