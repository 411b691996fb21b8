"""Settings of a topic owner from Pulsar's broker.conf keys (M6; docs/reference/configuration.md)."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.plans.topology import PlacementPolicy
from mledger.bookie.client.tls_settings import bookie_tls
from mledger.config import SETTINGS, EntryCacheConfig, ManagedLedgerConfig, config_from_settings
from mledger.known_settings import is_known
from mledger.metastore.errors import InvalidMetadataUrl, InvalidSetting
from mledger.metastore.runtime.settings import Settings, boolean, integer, number, read_settings
from mledger.metastore.session import SESSION_TIMEOUT_S
from mledger.metastore.url import parse_url

_MAX_INT = 2**31 - 1
_SESSION_KEYS = ("zooKeeperSessionTimeoutMillis", "metadataStoreSessionTimeoutMillis")
_OPERATION_KEYS = ("zooKeeperOperationTimeoutSeconds", "metadataStoreOperationTimeoutSeconds")
_ENFORCE_RACKS = "bookkeeperClientEnforceMinNumRacksPerWriteQuorum"
_PLACEMENT_SWITCHES = ("bookkeeperDiskWeightBasedPlacementEnabled",)
_PLACEMENT_TEXTS = frozenset(
    f"bookkeeper_{key}"
    for key in (
        "diskWeightBasedPlacementEnabled",
        "enforceMinNumFaultDomainsForWrite",
        "enforceMinNumRacksPerWriteQuorum",
        "enforceStrictZoneawarePlacement",
        "ensemblePlacementPolicy",
        "minNumRacksPerWriteQuorum",
        "minNumZonesPerWriteQuorum",
        "networkTopologyScriptFileName",
        "reppDnsResolverClass",
    )
)
_QUORUM_KEYS = (
    "managedLedgerDefaultEnsembleSize",
    "managedLedgerDefaultWriteQuorum",
    "managedLedgerDefaultAckQuorum",
)
_RETENTION_KEYS = ("defaultRetentionTimeInMinutes", "defaultRetentionSizeInMB")
_POLICIES_KEY = "topicPoliciesServiceClassName"
_POLICIES_IN_TOPIC = "org.apache.pulsar.broker.service.SystemTopicBasedTopicPoliciesService"
_ANSWER_KEY = "bookkeeperClientTimeoutInSeconds"
_OLD_KEYS = {
    "managedLedgerMaxUnackedRangesToPersistInZooKeeper": "managedLedgerMaxUnackedRangesToPersistInMetadataStore"
}


@dataclass(frozen=True, slots=True)
class OwnerSettings:
    """The arguments of `open_cluster` from settings; `url` is empty if they name no metadata store."""

    config: ManagedLedgerConfig = ManagedLedgerConfig()  # noqa: RUF009 - frozen
    client: ClientConfig = ClientConfig()  # noqa: RUF009 - frozen
    cache: EntryCacheConfig = field(default_factory=EntryCacheConfig)
    session_timeout: float = SESSION_TIMEOUT_S
    url: str = ""
    cluster_name: str = ""
    topic_metrics: bool = True
    quorums_given: bool = False
    """Whether the settings set quorums; else those of the cluster apply."""
    retention_given: bool = False
    """Whether the settings are a broker's, or set its default retention; else that is not known."""
    answer_time_given: bool = False
    """Whether the settings say how long to wait for a bookie's answer."""
    unknown: tuple[str, ...] = ()
    """Keys that no broker knows."""
    not_honoured: tuple[str, ...] = ()
    """Keys that demand a bookie placement that mledger does not support: warn about them."""
    without_effect: tuple[str, ...] = ()
    """Keys of a broker that have no effect here."""


def read_owner_settings(path: str | None, assignments: Sequence[str] = ()) -> OwnerSettings:
    """The settings of `path`, a broker.conf, overridden by `assignments`, each KEY=VALUE.

    Raises InvalidSetting and InvalidConfiguration, which name the place, the key and the valid
    values.
    """
    settings = read_settings(path, assignments)
    retention_given = path is not None or bool(settings.texts(_RETENTION_KEYS))
    return dataclasses.replace(owner_settings(settings), retention_given=retention_given)


def owner_settings(settings: Settings) -> OwnerSettings:
    """Convert `settings` for an owner. Raises InvalidSetting and InvalidConfiguration."""
    client, config = _client(settings), _config(settings)
    found = OwnerSettings(
        config=config,
        client=client,
        cache=_cache(settings),
        session_timeout=_seconds(settings, _SESSION_KEYS, SESSION_TIMEOUT_S, per_second=1000),
        url=_url(settings),
        cluster_name=settings.take("clusterName", str, ""),
        topic_metrics=settings.take("exposeTopicLevelMetricsInPrometheus", boolean, True),
        not_honoured=_not_honoured(settings),
        quorums_given=bool(settings.texts(_QUORUM_KEYS)),
        answer_time_given=bool(settings.texts((_ANSWER_KEY,))),
    )
    left = settings.without_effect
    return dataclasses.replace(
        found,
        unknown=tuple(key for key in left if not is_known(key)),
        without_effect=tuple(key for key in left if is_known(key)),
    )


def _config(settings: Settings) -> ManagedLedgerConfig:
    keys = [setting.key for setting in SETTINGS]
    texts = settings.texts([*_OLD_KEYS, *keys])
    where = {key: settings.where(key) for key in texts}
    for old, key in _OLD_KEYS.items():
        if old in texts and key not in texts:
            texts[key], where[key] = texts[old], where[old]
    config = config_from_settings(texts, where)
    if not settings.take("systemTopicEnabled", boolean, True):  # topics' policies are kept in one
        config = dataclasses.replace(config, topic_level_policies=False)
    service = settings.take(_POLICIES_KEY, str, "").strip()
    if config.topic_level_policies and service not in ("", _POLICIES_IN_TOPIC):
        raise InvalidSetting(
            f"{settings.where(_POLICIES_KEY)}: {_POLICIES_KEY} is {service}: mledger reads policies of topics from "
            "__change_events only, and would delete what others retain; set topicLevelPoliciesEnabled=false to do "
            "without them"
        )
    return config


def _cache(settings: Settings) -> EntryCacheConfig:
    default = EntryCacheConfig()
    return EntryCacheConfig(
        size_mb=settings.take("managedLedgerCacheSizeMB", integer(0, _MAX_INT), default.size_mb),
        eviction_watermark=settings.take(
            "managedLedgerCacheEvictionWatermark", number(0, 1), default.eviction_watermark
        ),
        max_age_ms=settings.take(
            "managedLedgerCacheEvictionTimeThresholdMillis", integer(1, _MAX_INT), default.max_age_ms
        ),
        keeps_reads=settings.take("cacheEvictionByExpectedReadCount", boolean, default.keeps_reads),
    )


def _client(settings: Settings) -> ClientConfig:
    default = ClientConfig()
    checked = settings.take("bookkeeperClientHealthCheckEnabled", boolean, True)
    quarantine = _seconds(settings, ("bookkeeperClientHealthCheckQuarantineTimeInSeconds",), default.quarantine_s)
    answer = _seconds(settings, (_ANSWER_KEY,), 0.0)
    return replace(
        default,
        add_timeout_s=answer or default.add_timeout_s,
        read_timeout_s=answer or default.read_timeout_s,
        silence_timeout_s=answer or default.silence_timeout_s,
        speculative_read_s=settings.take(
            "bookkeeperClientSpeculativeReadTimeoutInMillis", _speculative, default.speculative_read_s
        ),
        quarantine_s=quarantine if checked else 0.0,
        placement=_placement(settings),
        tls=bookie_tls(settings),
        metadata_timeout_s=_seconds(settings, _OPERATION_KEYS, default.metadata_timeout_s),
    )


def _placement(settings: Settings) -> PlacementPolicy:
    """The rack policy of the settings. Raises InvalidSetting if they require and disable racks at once."""
    default = PlacementPolicy()
    policy = PlacementPolicy(
        rack_aware=settings.take("bookkeeperClientRackawarePolicyEnabled", boolean, default.rack_aware),
        region_aware=settings.take("bookkeeperClientRegionawarePolicyEnabled", boolean, default.region_aware),
        min_racks=settings.take("bookkeeperClientMinNumRacksPerWriteQuorum", integer(1, _MAX_INT), default.min_racks),
        enforce_min_racks=settings.take(_ENFORCE_RACKS, boolean, default.enforce_min_racks),
        isolation_groups=settings.take("bookkeeperClientIsolationGroups", _names, default.isolation_groups),
        secondary_isolation_groups=settings.take(
            "bookkeeperClientSecondaryIsolationGroups", _names, default.secondary_isolation_groups
        ),
    )
    if policy.enforce_min_racks and not (policy.rack_aware or policy.region_aware):
        raise InvalidSetting(
            f"{settings.where(_ENFORCE_RACKS)}: {_ENFORCE_RACKS} is true, but no placement policy is rack-aware: set "
            "bookkeeperClientRackawarePolicyEnabled or bookkeeperClientRegionawarePolicyEnabled to true"
        )
    return policy


def _names(text: str) -> frozenset[str]:
    return frozenset(name for part in text.split(",") if (name := part.strip()))


def _not_honoured(settings: Settings) -> tuple[str, ...]:
    """Keys that demand a bookie placement that mledger does not support."""
    demanded = [key for key in _PLACEMENT_SWITCHES if settings.take(key, boolean, False)]
    return (*demanded, *sorted(key for key in settings.given if key in _PLACEMENT_TEXTS))


def _speculative(text: str) -> float:
    """Seconds before a speculative read; infinite if the setting is 0."""
    return integer(0, _MAX_INT)(text) / 1000 or float("inf")


def _seconds(settings: Settings, keys: Sequence[str], default: float, *, per_second: int = 1) -> float:
    """The value of the last given key of `keys`, in seconds."""
    found = [settings.take(key, integer(1, _MAX_INT), 0) for key in keys]
    given = [value for value in found if value]
    return given[-1] / per_second if given else default


def _url(settings: Settings) -> str:
    """The metadata store that the settings name, and the ledgers' own store if there is one."""
    servers = settings.take("zookeeperServers", lambda text: _checked_store(f"zk:{text}"), "")
    url = settings.take("metadataStoreUrl", _checked_store, "") or servers
    ledgers = settings.take("bookkeeperMetadataServiceUri", _checked_ledgers, "")
    return f"{url}?ledgers={ledgers}" if url and ledgers else url


def _checked_store(text: str) -> str:
    try:
        return str(parse_url(text.removeprefix("metadata-store:")))
    except InvalidMetadataUrl as error:
        raise ValueError(str(error)) from None


def _checked_ledgers(text: str) -> str:
    try:
        parse_url(f"memory:?ledgers={text}")
    except InvalidMetadataUrl as error:
        raise ValueError(str(error)) from None
    return text
