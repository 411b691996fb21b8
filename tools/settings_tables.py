"""Write the defaults of settings from the code into `docs/reference/configuration.md`, or check that they are current.

The tables stand between `<!-- settings: NAME -->` and `<!-- /settings -->`. The tool fills the column `default` of each
key that has a default in the code. The other columns, and the default of a key without one, are written by hand.
"""

import argparse
import re
import sys
from pathlib import Path

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.server.process.options import BookieOptions, parse_options
from mledger.broker.process.options import parse_broker_options
from mledger.broker.security.security_settings import SECURITY_KEYS
from mledger.broker.security.tls_settings import TLS_KEYS
from mledger.broker.settings import KEYS as BROKER_KEYS
from mledger.broker.settings import MILLISECONDS
from mledger.cli.shared.changes.topic_owner import ADD_TIMEOUT_S
from mledger.config import SETTINGS, ManagedLedgerConfig
from mledger.metastore.records.ledger_metadata import DigestType
from mledger.settings import OwnerSettings

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "configuration.md"
TABLE = re.compile(r"(<!-- settings: (\w+) -->\n)(.*?)(<!-- /settings -->)", re.DOTALL)
ROW = re.compile(r"^\| (?P<keys>`[^|]*?) \| (?P<means>.*?) \| ?(?P<default>[^|]*?) ?\|$")
DIGESTS = {DigestType.CRC32C: "CRC32C", DigestType.CRC32: "CRC32", DigestType.HMAC: "MAC", DigestType.DUMMY: "DUMMY"}
MIB = 1 << 20


def bookie_defaults() -> dict[str, object]:
    """The values that a bookie uses for unset keys of `bookkeeper.conf`."""

    def started_with(*settings: str) -> BookieOptions:
        given = [word for setting in settings for word in ("--set", setting)]
        return parse_options(["--metadata", "memory:", "--dir", "directory", *given])

    plain = started_with()
    served = started_with("httpServerEnabled=true").metrics or ("", 0)
    exported = started_with("prometheusStatsHttpPort=1").metrics or ("", 0)
    minor, major = started_with("minorCompactionThreshold=").compactions
    return {
        "bookiePort": plain.port,
        "advertisedAddress": plain.announced,
        "zkLedgersRootPath": plain.ledgers_root,
        "zkTimeout": plain.session_timeout * 1000,
        "nettyMaxFrameSizeBytes": plain.storage.max_frame,
        "mledgerMaxConnections": plain.max_connections,
        "journalMaxSizeMB": plain.storage.journal_file_bytes / MIB,
        "journalMaxMemorySizeMb": plain.storage.turn_bytes / MIB,
        "gcWaitTime": plain.garbage_interval * 1000,
        "mledgerGcGraceTime": plain.garbage_grace * 1000,
        "gcOverreplicatedLedgerWaitTime": plain.overreplicated_interval * 1000,
        "minorCompactionThreshold": minor.share,
        "minorCompactionInterval": minor.every_s,
        "majorCompactionThreshold": major.share,
        "majorCompactionInterval": major.every_s,
        "diskUsageThreshold": plain.disk.full_share,
        "diskUsageLwmThreshold": plain.disk.low_water_share,
        "diskUsageWarnThreshold": plain.disk.warn_share,
        "diskCheckInterval": plain.disk.look_s * 1000,
        "readOnlyModeEnabled": not plain.disk.stop_when_full,
        "forceReadOnlyBookie": plain.read_only,
        "httpServerEnabled": plain.metrics is not None,
        "httpServerHost": served[0],
        "httpServerPort": served[1],
        "prometheusStatsHttpAddress": exported[0],
    }


def owner_defaults() -> dict[str, object]:
    """The values that an owner uses for unset keys of `broker.conf`."""
    config, client, owner = ManagedLedgerConfig(), ClientConfig(), OwnerSettings()
    placement = client.placement
    topics: dict[str, object] = {}
    for setting in SETTINGS:
        value = getattr(config, setting.field)
        scaled = isinstance(value, int) and setting.factor > 1 and value > 0
        topics[setting.key] = value / setting.factor if scaled else value
    return topics | {
        "bookkeeperClientTimeoutInSeconds": f"{client.add_timeout_s:g} for adds ({ADD_TIMEOUT_S:g} in commands), "
        f"{client.read_timeout_s:g} for reads",
        "bookkeeperClientSpeculativeReadTimeoutInMillis": client.speculative_read_s * 1000,
        "bookkeeperClientHealthCheckEnabled": client.quarantine_s > 0,
        "bookkeeperClientHealthCheckQuarantineTimeInSeconds": client.quarantine_s,
        "bookkeeperClientRackawarePolicyEnabled": placement.rack_aware,
        "bookkeeperClientRegionawarePolicyEnabled": placement.region_aware,
        "bookkeeperClientMinNumRacksPerWriteQuorum": placement.min_racks,
        "bookkeeperClientEnforceMinNumRacksPerWriteQuorum": placement.enforce_min_racks,
        "metadataStoreSessionTimeoutMillis": owner.session_timeout * 1000,
        "metadataStoreOperationTimeoutSeconds": client.metadata_timeout_s,
        "exposeTopicLevelMetricsInPrometheus": owner.topic_metrics,
        "managedLedgerCacheEvictionWatermark": owner.cache.eviction_watermark,
        "managedLedgerCacheEvictionTimeThresholdMillis": owner.cache.max_age_ms,
        "cacheEvictionByExpectedReadCount": owner.cache.keeps_reads,
    }


def broker_defaults() -> dict[str, object]:
    """The values that a broker uses for unset keys of `broker.conf`."""
    plain = parse_broker_options(["--metadata", "memory:"])
    found: dict[str, object] = {}
    for each in BROKER_KEYS:
        value = getattr(plain.broker, each.field)
        if each.key.endswith(MILLISECONDS):
            value *= 1000
        found[each.key] = value / each.factor if each.factor > 1 else value
    more = ((plain.tls, TLS_KEYS), (plain.security, SECURITY_KEYS))
    for each, value in ((key, getattr(settings, key.field)) for settings, keys in more for key in keys):
        if value not in (None, "", (), frozenset()):
            found[each.key] = value
    return found | {"advertisedAddress": plain.announced, "bindAddress": plain.host}


def as_text(value: object) -> str:
    """A default in the form of a settings file."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, DigestType):
        return DIGESTS[value]
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, bytes):
        return value.decode() or "empty"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)


def with_defaults(page: str) -> str:
    """The page with the default of each key that has one in the code. ValueError if one of these keys has no row."""
    defaults = {"bookies": bookie_defaults(), "owners": owner_defaults(), "brokers": broker_defaults()}
    left = {key for table in defaults.values() for key in table}

    def row(line: str, known: dict[str, object]) -> str:
        found = ROW.match(line)
        if found is None:
            return line
        keys = [key for key in re.findall(r"`(\w+)`", found["keys"]) if key in known]
        left.difference_update(keys)
        default = ", ".join(as_text(known[key]) for key in keys) or found["default"]
        return f"| {found['keys']} | {found['means']} | {default} |"

    def table(found: re.Match[str]) -> str:
        rows = [row(line, defaults[found[2]]) for line in found[3].splitlines()]
        return found[1] + "".join(f"{line}\n" for line in rows) + found[4]

    written = TABLE.sub(table, page)
    if left:
        raise ValueError(f"no row for {', '.join(sorted(left))}: add one to {PAGE.name}")
    return written


def main() -> int:
    """Write the page, or with --check say whether it is current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the page is stale")
    before = PAGE.read_text()
    after = with_defaults(before)
    if not parser.parse_args().check:
        PAGE.write_text(after)
    elif after != before:
        sys.stderr.write(f"{PAGE} is stale: run {sys.argv[0]}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
