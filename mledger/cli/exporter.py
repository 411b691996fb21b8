"""`mledger exporter`: serves metrics of a whole cluster from this process."""

from mledger.cli.server_command import ServerMain, given_metadata, server_command


def _load() -> ServerMain:
    from mledger.exporter.main import main

    return main


exporter = server_command(
    "exporter",
    _load,
    summary="Serve metrics of a whole cluster, read from its metadata, until SIGTERM or SIGINT; --help shows its "
    "OPTIONS.",
    epilog="Example: mledger exporter --rate 5000 --interval 120",
    given=given_metadata,
)
