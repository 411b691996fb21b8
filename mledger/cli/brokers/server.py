"""`mledger broker run`: runs a broker in this process."""

from mledger.cli.server_command import ServerMain, given_metadata, server_command


def _load() -> ServerMain:
    from mledger.broker.process.main import main

    return main


run = server_command(
    "run",
    _load,
    summary="Run a broker for Pulsar's clients in the foreground until SIGTERM or SIGINT; --help shows its OPTIONS.",
    epilog="Example: mledger broker run --port 6650 --config broker.conf",
    given=given_metadata,
)
