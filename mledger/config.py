"""The configuration of a managed ledger (M6): Pulsar's ManagedLedgerConfig with the defaults of broker.conf."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from mledger.errors import InvalidConfiguration
from mledger.metastore.records.ledger_metadata import DigestType
from mledger.process_memory import process_memory

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
MIB = 1024 * 1024
MAX_MESSAGE_SIZE = 5 * MIB
MESSAGE_PADDING = 10 * 1024  # bytes; what an entry of a message may hold besides, as Pulsar's
CURSOR_ZNODE_LIMIT = 512 * 1024  # bytes; C3's limit for a record in the cursor's znode


@dataclass(frozen=True, slots=True)
class ManagedLedgerConfig:
    """Settings of one managed ledger. Raises InvalidConfiguration for a value out of range.

    Names of times end in their unit. Retention: -1 keeps everything, 0 keeps no consumed ledger; a
    consumed ledger is deleted once its time has passed or the remaining ledgers exceed the size.
    This is the default for topics without a policy (M10). A time-out of 0 seconds means none.
    """

    ensemble_size: int = 2
    write_quorum_size: int = 2
    ack_quorum_size: int = 2
    digest_type: DigestType = DigestType.CRC32C
    password: bytes = b""
    strict_bookie_affinity: bool = False  # a namespace that names no groups of bookies uses only those in none

    max_entries_per_ledger: int = 50_000
    max_size_per_ledger_mb: int = 2048
    minimum_rollover_time_ms: int = 10 * 60 * 1000
    maximum_rollover_time_ms: int = 240 * 60 * 1000
    inactive_ledger_roll_over_time_ms: int = 0  # since the last append; 0: no limit
    max_message_size: int = MAX_MESSAGE_SIZE

    metadata_max_entries_per_ledger: int = 50_000  # entries of a cursor ledger
    ledger_rollover_timeout_s: int = 14_400  # age of a cursor ledger
    throttle_mark_delete: float = 1.0  # cursor flushes per second; 0: not throttled
    max_unacked_ranges_to_persist_in_metadata_store: int = 1000

    retention_time_ms: int = 0
    retention_size_in_mb: int = 0
    topic_level_policies: bool = True  # whether policies that topics have of their own count; as the cluster has it

    read_entry_timeout_s: int = 0
    add_entry_timeout_s: int = 0
    metadata_operations_timeout_s: int = 60
    new_entries_check_delay_ms: int = 10
    auto_skip_non_recoverable_data: bool = False
    deletion_at_batch_index_level_enabled: bool = False

    def __post_init__(self) -> None:
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise InvalidConfiguration(
                    f"{setting_name(name)} is {value!r}: set it to a number from {low:,} to {high:,}"
                )
        if not self.ensemble_size >= self.write_quorum_size >= self.ack_quorum_size >= 1:
            raise InvalidConfiguration(
                f"ensemble size {self.ensemble_size}, write quorum {self.write_quorum_size} and ack quorum "
                f"{self.ack_quorum_size} are invalid: ensemble >= write quorum >= ack quorum >= 1 is needed "
                "(managedLedgerDefaultEnsembleSize, managedLedgerDefaultWriteQuorum, managedLedgerDefaultAckQuorum)"
            )
        if self.minimum_rollover_time_ms > self.maximum_rollover_time_ms > 0:
            raise InvalidConfiguration(
                f"minimum rollover time {self.minimum_rollover_time_ms} ms is above the maximum "
                f"{self.maximum_rollover_time_ms} ms (managedLedgerMinLedgerRolloverTimeMinutes, "
                "managedLedgerMaxLedgerRolloverTimeMinutes)"
            )

        if half := half_retention(self.retention_time_ms, self.retention_size_in_mb):
            raise InvalidConfiguration(
                f"a retention time of {self.retention_time_ms} ms and a retention size of {self.retention_size_in_mb} "
                f"MB contradict each other: {half}; to keep nothing, set both to 0 (defaultRetentionTimeInMinutes, "
                "defaultRetentionSizeInMB)"
            )

    @property
    def max_size_per_ledger(self) -> int:
        """The payload bytes at which a ledger rolls over; 0: no limit."""
        return self.max_size_per_ledger_mb * MIB

    @property
    def retention_size(self) -> int:
        """The payload bytes of consumed ledgers that are kept; -1: all."""
        return self.retention_size_in_mb * MIB if self.retention_size_in_mb >= 0 else -1


def plan_cache_mb(memory: int) -> int:
    """A twentieth of the bytes of memory in MiB, at least 64: what a broker takes with Java's default heap.

    Where there is little memory (a container), an eighth of it at most.
    """
    return min(max(64, memory // (20 * MIB)), memory // (8 * MIB))


def default_cache_mb() -> int:
    """What is planned for this process's memory."""
    return plan_cache_mb(process_memory())


@dataclass(frozen=True, slots=True)
class EntryCacheConfig:
    """Settings of the cache of a cluster's entries (D6). Raises InvalidConfiguration for a value out of range.

    Above `size_mb` the oldest entries leave until the cache is down to `eviction_watermark` of it;
    0 caches nothing. Entries leave after `max_age_ms` in any case, those that `keeps_reads` keeps after
    six times that: what one cursor reads from bookies while others are to read it soon.
    """

    size_mb: int = field(default_factory=default_cache_mb)
    eviction_watermark: float = 0.9
    max_age_ms: int = 1000
    keeps_reads: bool = True

    def __post_init__(self) -> None:
        for name, key, low, high in (
            ("size_mb", "managedLedgerCacheSizeMB", 0, MAX_INT),
            ("eviction_watermark", "managedLedgerCacheEvictionWatermark", 0, 1),
            ("max_age_ms", "managedLedgerCacheEvictionTimeThresholdMillis", 1, MAX_LONG),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise InvalidConfiguration(f"{key} is {value!r}: set it to a number from {low:,} to {high:,}")

    @property
    def size(self) -> int:
        """The most bytes that the cache holds."""
        return self.size_mb * MIB


def half_retention(time: int, size: int) -> str:
    """Why retention with only one limit of 0 keeps nothing, which Pulsar's admin API rejects; else ""."""
    if (time == 0) == (size == 0):
        return ""
    limit, other = ("time", "size") if time == 0 else ("size", "time")
    return f"a {limit} of 0 keeps nothing, whatever the {other}: set the {limit} to -1 for no limit"


RANGES: dict[str, tuple[int, int]] = {
    "ensemble_size": (1, MAX_INT),
    "write_quorum_size": (1, MAX_INT),
    "ack_quorum_size": (1, MAX_INT),
    "max_entries_per_ledger": (1, MAX_INT),
    "max_size_per_ledger_mb": (0, MAX_INT),
    "minimum_rollover_time_ms": (0, MAX_LONG),
    "maximum_rollover_time_ms": (0, MAX_LONG),
    "inactive_ledger_roll_over_time_ms": (0, MAX_LONG),
    "max_message_size": (1, MAX_MESSAGE_SIZE + MESSAGE_PADDING),
    "metadata_max_entries_per_ledger": (1, MAX_INT),
    "ledger_rollover_timeout_s": (0, MAX_INT),
    "throttle_mark_delete": (0, MAX_INT),
    "max_unacked_ranges_to_persist_in_metadata_store": (0, MAX_INT),
    "retention_time_ms": (-1, MAX_LONG),
    "retention_size_in_mb": (-1, MAX_INT),
    "read_entry_timeout_s": (0, MAX_INT),
    "add_entry_timeout_s": (0, MAX_INT),
    "metadata_operations_timeout_s": (1, MAX_INT),
    "new_entries_check_delay_ms": (0, MAX_INT),
}


class Setting(NamedTuple):
    """A broker.conf key and the field it sets; numbers are multiplied by `factor` (minutes to ms)."""

    key: str
    field: str
    factor: int = 1


_MINUTE_MS = 60 * 1000

SETTINGS: tuple[Setting, ...] = (
    Setting("managedLedgerDefaultEnsembleSize", "ensemble_size"),
    Setting("managedLedgerDefaultWriteQuorum", "write_quorum_size"),
    Setting("managedLedgerDefaultAckQuorum", "ack_quorum_size"),
    Setting("managedLedgerDigestType", "digest_type"),
    Setting("managedLedgerPassword", "password"),
    Setting("strictBookieAffinityEnabled", "strict_bookie_affinity"),
    Setting("managedLedgerMaxEntriesPerLedger", "max_entries_per_ledger"),
    Setting("managedLedgerMaxSizePerLedgerMbytes", "max_size_per_ledger_mb"),
    Setting("managedLedgerMinLedgerRolloverTimeMinutes", "minimum_rollover_time_ms", _MINUTE_MS),
    Setting("managedLedgerMaxLedgerRolloverTimeMinutes", "maximum_rollover_time_ms", _MINUTE_MS),
    Setting("managedLedgerInactiveLedgerRolloverTimeSeconds", "inactive_ledger_roll_over_time_ms", 1000),
    Setting("maxMessageSize", "max_message_size"),
    Setting("managedLedgerCursorMaxEntriesPerLedger", "metadata_max_entries_per_ledger"),
    Setting("managedLedgerCursorRolloverTimeInSeconds", "ledger_rollover_timeout_s"),
    Setting("managedLedgerDefaultMarkDeleteRateLimit", "throttle_mark_delete"),
    Setting("managedLedgerMaxUnackedRangesToPersistInMetadataStore", "max_unacked_ranges_to_persist_in_metadata_store"),
    Setting("defaultRetentionTimeInMinutes", "retention_time_ms", _MINUTE_MS),
    Setting("defaultRetentionSizeInMB", "retention_size_in_mb"),
    Setting("topicLevelPoliciesEnabled", "topic_level_policies"),
    Setting("managedLedgerReadEntryTimeoutSeconds", "read_entry_timeout_s"),
    Setting("managedLedgerAddEntryTimeoutSeconds", "add_entry_timeout_s"),
    Setting("managedLedgerMetadataOperationsTimeoutSeconds", "metadata_operations_timeout_s"),
    Setting("managedLedgerNewEntriesCheckDelayInMillis", "new_entries_check_delay_ms"),
    Setting("autoSkipNonRecoverableData", "auto_skip_non_recoverable_data"),
    Setting("acknowledgmentAtBatchIndexLevelEnabled", "deletion_at_batch_index_level_enabled"),
)

_KEY_OF_FIELD = {setting.field: setting.key for setting in SETTINGS}
_DIGESTS = {
    "CRC32": DigestType.CRC32,
    "MAC": DigestType.HMAC,
    "CRC32C": DigestType.CRC32C,
    "DUMMY": DigestType.DUMMY,
}


def setting_name(field: str) -> str:
    """The broker.conf key of a field of ManagedLedgerConfig."""
    return _KEY_OF_FIELD[field]


def config_from_settings(settings: Mapping[str, str], where: Mapping[str, str] | None = None) -> ManagedLedgerConfig:
    """A configuration from broker.conf keys and texts; ignores other keys, uses defaults for missing ones.

    `where` gives the place of each key. Raises InvalidConfiguration, which names key and place, for
    text that does not parse or a value out of range.
    """
    types = {item.name: type(item.default) for item in fields(ManagedLedgerConfig)}
    values: dict[str, object] = {}
    try:
        for setting in SETTINGS:
            text = settings.get(setting.key)
            if text is not None and (text.strip() or types[setting.field] is bytes):
                values[setting.field] = _parse(setting, text, types[setting.field])
        return ManagedLedgerConfig(**values)  # type: ignore[arg-type]
    except InvalidConfiguration as error:
        places = [place for key, place in (where or {}).items() if key in settings and key in str(error)]
        raise InvalidConfiguration(f"{', '.join(places)}: {error}") if places else error from None


def _parse(setting: Setting, text: str, kind: type) -> object:
    try:
        if kind is bytes:
            return text.encode()
        text = text.strip()
        if kind is DigestType:
            return _DIGESTS[text]
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        number = kind(text)
    except (KeyError, ValueError):
        wanted = {DigestType: " or ".join(_DIGESTS), bool: "true or false"}.get(kind, "a number")
        raise InvalidConfiguration(f"{setting.key} is {text!r}: {wanted} is needed") from None
    return -1 if number == -1 else number * setting.factor
