"""The effective retention of a topic (M10), decided over plain values; no I/O.

The topic's own policy applies; else its policy for all clusters, else the namespace's policy, else
the default of the broker, which is the configuration given. A configuration never shortens the
retention that a policy sets: to keep less, change the policy.
"""

import enum
from typing import Protocol

from msgspec import Struct

from mledger.config import MIB, ManagedLedgerConfig, half_retention
from mledger.metastore.cluster.policies import NO_POLICIES, Persistence, Retention, StoragePolicies
from mledger.metastore.cluster.service_policies import ServicePolicies, merged

MINUTE_MS = 60_000
KEEPS_ALL = -1


class RetentionOrigin(enum.Enum):
    """The source of a topic's retention."""

    TOPIC = "the topic's policy"
    TOPIC_GLOBAL = "the topic's policy for all clusters"
    NAMESPACE = "the namespace's policy"
    DEFAULT = "the default of the configuration"
    UNKNOWN = "not known yet"


class RetentionLimits(Protocol):
    """Retention as trimming needs it: -1 keeps everything, 0 keeps no consumed ledger."""

    @property
    def retention_time_ms(self) -> int:
        """How long a ledger is kept after its close, in ms."""

    @property
    def retention_size(self) -> int:
        """Payload bytes of the topic that are kept."""


class RetentionInForce(Struct, frozen=True):
    """Retention as applied: -1 keeps everything, 0 no consumed ledger; time in ms, size in MiB."""

    retention_time_ms: int
    retention_size_in_mb: int
    origin: RetentionOrigin

    @property
    def retention_size(self) -> int:
        """Payload bytes of the topic that are kept; -1: all."""
        return self.retention_size_in_mb * MIB if self.retention_size_in_mb >= 0 else KEEPS_ALL


KEEP_ALL = RetentionInForce(KEEPS_ALL, KEEPS_ALL, RetentionOrigin.UNKNOWN)
KEEP_NOTHING = RetentionInForce(0, 0, RetentionOrigin.UNKNOWN)


class TopicPolicies(Struct, frozen=True):
    """The policies that apply to a topic, by level."""

    topic: StoragePolicies = NO_POLICIES
    topic_global: StoragePolicies = NO_POLICIES
    namespace: StoragePolicies = NO_POLICIES

    @property
    def own(self) -> ServicePolicies:
        """The policies for a broker's service that the topic has itself, without those of its namespace."""
        return merged(self.topic.service, self.topic_global.service)

    @property
    def service(self) -> ServicePolicies:
        """The policies in force for a broker's service, each of the nearest level that sets it."""
        return merged(self.topic.service, self.topic_global.service, self.namespace.service)


def retention_in_force(policies: TopicPolicies, config: ManagedLedgerConfig) -> RetentionInForce:
    """The effective retention (M10)."""
    for origin, found in (
        (RetentionOrigin.TOPIC, policies.topic.retention),
        (RetentionOrigin.TOPIC_GLOBAL, policies.topic_global.retention),
        (RetentionOrigin.NAMESPACE, policies.namespace.retention),
    ):
        if found is not None:
            return RetentionInForce(_ms(found), found.size_mb, origin)
    return RetentionInForce(config.retention_time_ms, config.retention_size_in_mb, RetentionOrigin.DEFAULT)


def retention_warnings(retention: RetentionInForce) -> tuple[str, ...]:
    """A warning if the retention keeps nothing although one of its limits is set."""
    half = half_retention(retention.retention_time_ms, retention.retention_size_in_mb)
    return (f"{retention.origin.value} has no effect: {half}",) if half else ()


def persistence_in_force(policies: TopicPolicies) -> Persistence | None:
    """The quorums that policies set for the topic's ledgers, or None."""
    return policies.topic.persistence or policies.topic_global.persistence or policies.namespace.persistence


def _ms(retention: Retention) -> int:
    return retention.minutes * MINUTE_MS if retention.minutes >= 0 else KEEPS_ALL
