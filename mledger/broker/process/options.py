"""The options of a broker process: command-line options win over `--set`, which wins over the file of `--config`."""

import argparse
import dataclasses
import os
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from mledger.broker.security.security_settings import SecuritySettings, security_settings
from mledger.broker.security.tls_settings import BrokerTls, tls_settings
from mledger.broker.settings import BrokerSettings, broker_settings
from mledger.broker.unserved_settings import plan_unserved
from mledger.config import MAX_MESSAGE_SIZE, MESSAGE_PADDING, ManagedLedgerConfig
from mledger.errors import InvalidConfiguration
from mledger.metastore.errors import InvalidSetting
from mledger.metastore.runtime.logs.loggers import FORMATS, TEXT
from mledger.metastore.runtime.settings import Settings, read_settings
from mledger.settings import OwnerSettings, owner_settings

PROGRAM = "mledger broker run"
LOOPBACK = "127.0.0.1"
ALL_INTERFACES = "0.0.0.0"  # noqa: S104 - listened on only where a setting says so


class BrokerOptions(Struct, frozen=True):
    """How a broker is started.

    `announced` is the host that lookups name, `port` None if only TLS is served; `metrics` where to
    serve metrics. `explain`: print what clients' requests do. `alone`: the cluster has no other
    broker, so clients are to stay at the URL that they used. `unserved`: the keys that ask for what this broker
    does not do.
    """

    metadata: str
    host: str
    announced: str
    port: int | None
    broker: BrokerSettings
    owner: OwnerSettings
    metrics: tuple[str, int] | None = None
    metrics_host: str = ""
    tls: BrokerTls = BrokerTls()
    security: SecuritySettings = SecuritySettings()
    unserved: tuple[str, ...] = ()
    log_level: str = "info"
    log_format: str = TEXT
    explain: bool = False
    alone: bool = False


def entries_config(config: ManagedLedgerConfig) -> ManagedLedgerConfig:
    """The configuration of topics whose entries hold a message of up to `maxMessageSize` and its metadata."""
    largest = min(config.max_message_size, MAX_MESSAGE_SIZE) + MESSAGE_PADDING
    return dataclasses.replace(config, max_message_size=largest)


def parse_broker_options(arguments: Sequence[str], program: str = PROGRAM) -> BrokerOptions:
    """The options of a command line and its settings; SystemExit(2) says what is wrong with them."""
    parser = _parser(program)
    args = parser.parse_args(arguments)
    if args.port is not None and not 0 <= args.port <= 65535:
        parser.error("--port is a number from 0 to 65,535")
    try:
        options = plan_broker_options(read_settings(args.config, args.set), host=args.host, port=args.port)
    except (InvalidSetting, InvalidConfiguration) as error:
        parser.error(str(error))
    metadata = args.metadata or options.metadata or os.environ.get("MLEDGER_METADATA", "")
    if not metadata:
        parser.error("--metadata (or MLEDGER_METADATA) is missing: the metadata store's URL, zk://host:port/chroot")
    return replace(
        options,
        metadata=metadata,
        metrics=None if args.metrics_port is None else (args.metrics_host or LOOPBACK, args.metrics_port),
        metrics_host=args.metrics_host or options.host,
        log_level=args.log_level,
        log_format=args.log_format,
        explain=args.explain,
    )


def plan_broker_options(settings: Settings, *, host: str = "", port: int | None = None) -> BrokerOptions:
    """All that the settings of a broker say, on the metadata store that they name; `host` and `port` win over them.

    Raises:
        InvalidSetting, InvalidConfiguration: a setting is wrong.
    """
    broker = broker_settings(settings)
    tls = tls_settings(settings)
    security = security_settings(settings, tls)
    unserved = plan_unserved(settings)
    owner = owner_settings(settings)
    listened, announced = plan_addresses(host, broker.bind_address, broker.advertised_address)
    return BrokerOptions(
        metadata=owner.url,
        host=listened,
        announced=announced,
        port=_plain_port(settings, broker.port) if port is None else port,
        broker=broker,
        owner=owner,
        tls=tls,
        security=security,
        unserved=unserved,
        metrics_host=listened,
    )


def _plain_port(settings: Settings, port: int) -> int | None:
    """The port without TLS: none if the setting is there and empty, and another port is there."""
    given = settings.given.get("brokerServicePort")
    tls_port = settings.given.get("brokerServicePortTls")
    encrypted = tls_port is not None and tls_port.text.strip()
    return None if given is not None and not given.text.strip() and encrypted else port


def plan_addresses(host: str, bind: str, advertised: str) -> tuple[str, str]:
    """The address to listen on, and the one that clients are told.

    `host` decides both. A broker with an address to announce listens on all interfaces, as
    Pulsar's does, unless that address is a loopback address or `bind` names one.
    """
    if host:
        return host, advertised or host
    if not advertised:
        return (bind, bind) if bind and bind != ALL_INTERFACES else (LOOPBACK, LOOPBACK)
    loopback = advertised == "localhost" or advertised.startswith("127.")
    return bind or (LOOPBACK if loopback else ALL_INTERFACES), advertised


def plan_web_url(options: BrokerOptions, port: int, *, encrypted: bool = False) -> str:
    """The URL of the metrics and of the admin API, which others read in the metadata store.

    On all interfaces the announced host leads there, and if it is encrypted: certificates name it.
    """
    host = options.announced if options.metrics is None or encrypted else options.metrics[0]
    if host in (ALL_INTERFACES, "::"):
        host = options.announced
    scheme = "https" if encrypted else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Runs a broker, which serves the cluster's topics to Pulsar's clients.",
        epilog="Options win over --set, --set over --config. Keys: docs/reference/configuration.md.",
    )
    parser.add_argument("--config", metavar="FILE", help="settings under Pulsar's names: a broker.conf")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="one such setting; repeatable")
    parser.add_argument("--metadata", default="", help="URL of the metadata store  [env: MLEDGER_METADATA]")
    parser.add_argument("--host", default="", help="address to listen on and to announce  [default: 127.0.0.1]")
    parser.add_argument("--port", type=int, help="default: brokerServicePort, else 6650; 0: a free one")
    parser.add_argument(
        "--metrics-port", type=int, metavar="PORT", help="serve metrics, health, figures; 0: a free one"
    )
    parser.add_argument("--metrics-host", default="", metavar="HOST", help="default: 127.0.0.1")
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    parser.add_argument("--log-format", default=TEXT, choices=FORMATS, help="json: one object per line")
    parser.add_argument(
        "--explain", action="store_true", help="print what clients' requests do, step by step, on stdout"
    )
    return parser
