"""The options of a standalone, and what its bookies and its broker get of them."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from mledger.bookie.server.process.bookie import BookieConfig
from mledger.bookie.server.process.cookie_check import Relocation
from mledger.bookie.server.process.options import BookieOptions
from mledger.broker.process.options import BrokerOptions, plan_broker_options
from mledger.errors import InvalidConfiguration
from mledger.known_settings import SINGLE_COPY
from mledger.metastore.errors import InvalidMetadataUrl, InvalidSetting
from mledger.metastore.runtime.logs.loggers import FORMATS, TEXT
from mledger.metastore.runtime.settings import Settings, integer, read_settings
from mledger.metastore.url import MemoryUrl, parse_url

PROGRAM = "mledger standalone"
DEFAULT_DIRECTORY = os.path.join("mledger-data", "standalone")
HTTP_PORT = 8080
MOST_BOOKIES = 16
OUTPUTS = ("text", "json")
JOURNAL_FILE_BYTES = 16 << 20
FLUSHES = "managedLedgerDefaultMarkDeleteRateLimit=10"
"""Cursors are persisted after a tenth of a second: in development and in tests processes are killed often."""
METADATA_KEYS = ("metadataStoreUrl", "zookeeperServers", "bookkeeperMetadataServiceUri")
"""Settings of a broker.conf that only --metadata decides: cleared, whatever the file says."""


@dataclass(frozen=True, slots=True)
class StandaloneOptions:
    """How a standalone is started; an empty `data_dir` is a temporary directory.

    `metadata` is the URL of a metadata store that runs elsewhere. Ports may be 0, a free one, or None: as the settings
    say. `moved`: the data was elsewhere before, with its metadata store.

    `settings` are a broker's, each KEY=VALUE, and override those of the file `broker_conf`.
    """

    data_dir: str = DEFAULT_DIRECTORY
    bookies: int | None = None
    metadata: str = ""
    port: int | None = None
    http_port: int | None = None
    broker_conf: str | None = None
    settings: tuple[str, ...] = ()
    output: str = "text"
    log_level: str = "info"
    log_format: str = TEXT
    moved: bool = False

    @property
    def ephemeral(self) -> bool:
        """Whether all data ends with the process."""
        return not self.data_dir

    def check(self) -> "StandaloneOptions":
        """These options, if they go together. InvalidSetting, InvalidConfiguration, InvalidMetadataUrl."""
        if self.metadata and not self.data_dir:
            raise InvalidSetting(
                f"--ephemeral excludes --metadata: {self.metadata} would name ledgers whose entries are gone"
            )
        if self.metadata and isinstance(parse_url(self.metadata), MemoryUrl):
            raise InvalidMetadataUrl(f"{self.metadata} is another process's: leave --metadata out, or add --ephemeral")
        if self.moved and (self.metadata or not self.data_dir):
            what = "--metadata" if self.metadata else "--ephemeral"
            raise InvalidSetting(f"--moved excludes {what}: it is for data that was moved with its metadata store")
        if self.bookies is not None and not 1 <= self.bookies <= MOST_BOOKIES:
            raise InvalidSetting(f"--bookies {self.bookies}: a number from 1 to {MOST_BOOKIES} is needed")
        for name, port in (("port", self.port), ("http-port", self.http_port)):
            if port is not None and not 0 <= port <= 65535:
                raise InvalidSetting(f"--{name} {port}: a number from 0 to 65,535 is needed")
        plan_standalone_broker(self, self.bookies or 1, self.metadata)
        return self


def plan_bookie_options(options: StandaloneOptions, url: str, directory: str) -> BookieOptions:
    """A bookie in `directory` with small journal files, each of which is allocated as a whole.

    In a temporary directory, whose data ends with the process, it syncs nothing.
    """
    storage = BookieConfig(journal_file_bytes=JOURNAL_FILE_BYTES, sync=not options.ephemeral, write_on_loop=True)
    relocation = Relocation.ALLOWED if options.moved else Relocation.ADVISED
    if options.metadata:
        relocation = Relocation.REFUSED  # the original may run there
    return BookieOptions(
        metadata=url, directory=directory, storage=storage, local_transport=True, relocation=relocation
    )


def plan_standalone_broker(options: StandaloneOptions, bookies: int, url: str) -> BrokerOptions:
    """The broker on the metadata store at `url`, whatever its settings say about that.

    With one bookie new ledgers have one copy, unless a setting says how many.

    Raises:
        InvalidSetting, InvalidConfiguration: a setting is wrong.
    """
    settings = _broker_settings(options, single_copy=bookies == 1)
    http_port = settings.take("webServicePort", integer(0, 65535), HTTP_PORT)
    broker = plan_broker_options(settings, port=options.port)
    return replace(
        broker,
        metadata=url,
        metrics=(broker.host, http_port if options.http_port is None else options.http_port),
        alone=not options.metadata,
    )


def _broker_settings(options: StandaloneOptions, *, single_copy: bool) -> Settings:
    assignments = (*options.settings, *(f"{key}=" for key in METADATA_KEYS))
    given = read_settings(options.broker_conf, assignments).given
    defaults = [] if FLUSHES.partition("=")[0] in given else [FLUSHES]
    if single_copy and not any(each.partition("=")[0] in given for each in SINGLE_COPY):
        defaults += SINGLE_COPY
    return read_settings(options.broker_conf, (*assignments, *defaults))


def parse_standalone_options(arguments: Sequence[str], program: str = PROGRAM) -> StandaloneOptions:
    """The options of a command line; SystemExit(2) says what is wrong with them."""
    parser = _parser(program)
    args = parser.parse_args(arguments)
    options = StandaloneOptions(
        data_dir="" if args.ephemeral else args.data_dir or DEFAULT_DIRECTORY,
        bookies=args.bookies,
        metadata=args.metadata,
        port=args.port,
        http_port=args.http_port,
        broker_conf=args.broker_conf,
        settings=tuple(args.set),
        output=args.output,
        log_level=args.log_level,
        log_format=args.log_format,
        moved=args.moved,
    )
    try:
        options.check()
    except (InvalidSetting, InvalidConfiguration, InvalidMetadataUrl) as error:
        parser.error(str(error))
    return options


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Runs Pulsar on this machine in one process: a metadata store, bookies and a broker.",
        epilog="Options win over --set, --set over --broker-conf. Keys: docs/reference/configuration.md.",
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--data-dir", metavar="DIR", help=f"where the data is kept  [default: {DEFAULT_DIRECTORY}]")
    place.add_argument("--ephemeral", action="store_true", help="use a temporary directory, removed at the end")
    parser.add_argument("--moved", action="store_true", help="the data was moved or restored here, whole")
    parser.add_argument("--bookies", type=int, metavar="N", help="default: as before, at first 1")
    parser.add_argument(
        "--metadata", default="", metavar="URL", help="a store that runs elsewhere, zk://host:port  [default: our own]"
    )
    parser.add_argument("--port", type=int, help="of clients; default: brokerServicePort, else 6650; 0: a free one")
    parser.add_argument(
        "--http-port", type=int, metavar="PORT", help=f"default: webServicePort, else {HTTP_PORT}; 0: a free one"
    )
    parser.add_argument("--broker-conf", metavar="FILE", help="settings under Pulsar's names: a broker.conf")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one such setting; repeatable")
    parser.add_argument("--output", "-o", default="text", choices=OUTPUTS, help="the form of the line on stdout")
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    parser.add_argument("--log-format", default=TEXT, choices=FORMATS, help="json: one object per line")
    return parser
