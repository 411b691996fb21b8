"""The policies in force for a topic, with where each is set. No I/O."""

from typing import Any

from msgspec import Struct, structs

from mledger.ledgers.retention import RetentionInForce, TopicPolicies, persistence_in_force
from mledger.metastore.cluster.service_policies import BacklogQuota, InactiveTopics, ServicePolicies, ThrottleRate

_MINUTE_MS = 60_000


class PolicyRow(Struct, frozen=True):
    """A policy: its name, its value, and where it is set."""

    name: str
    value: str
    origin: str


def plan_policies(policies: TopicPolicies, retention: RetentionInForce) -> tuple[PolicyRow, ...]:
    """Retention, and whatever else is set; the nearest level counts."""
    rows = [PolicyRow("retention", _retention(retention), retention.origin.value)]
    levels = (
        ("topic", policies.topic),
        ("topic, all clusters", policies.topic_global),
        ("namespace", policies.namespace),
    )
    quorums = persistence_in_force(policies)
    if quorums is not None:
        origin = next(name for name, level in levels if level.persistence is not None)
        rows.append(PolicyRow("persistence", _value(quorums), origin))
    for field in ServicePolicies.__struct_fields__:
        for name, level in levels:
            value = getattr(level.service, field)
            if value is not None:
                rows.append(PolicyRow(field.replace("_", " "), _value(value), name))
                break
    return tuple(rows)


def _retention(found: RetentionInForce) -> str:
    time_ms, size = found.retention_time_ms, found.retention_size_in_mb
    if time_ms == 0 and size == 0:
        return "consumed ledgers are deleted"
    time = "any time" if time_ms < 0 else f"{time_ms / _MINUTE_MS:g} min"
    return f"{time}, {'any size' if size < 0 else f'{size:,} MiB'}"


def _value(value: Any) -> str:
    if isinstance(value, BacklogQuota):
        parts = [f"{value.limit_bytes:,} bytes"] if value.limit_bytes >= 0 else []
        parts += [f"{value.limit_s:,} s"] if value.limit_s >= 0 else []
        return f"{' and '.join(parts) or 'no limit'}, {value.policy.value}"
    if isinstance(value, ThrottleRate):
        parts = [f"{value.messages:,} messages"] if value.messages > 0 else []
        parts += [f"{value.bytes:,} bytes"] if value.bytes > 0 else []
        return f"{' and '.join(parts)} in {value.period_s:,} s" if parts else "no limit"
    if isinstance(value, InactiveTopics):
        return f"{'deleted' if value.delete else 'kept'} after {value.after_s:,} s, {value.mode}"
    if isinstance(value, tuple):  # names, or pairs of a name and a value
        return ", ".join(each if isinstance(each, str) else f"{each[0]}: {_value(each[1])}" for each in value)
    if isinstance(value, Struct):
        return ", ".join(f"{name.replace('_', ' ')} {found}" for name, found in structs.asdict(value).items())
    return str(value).lower() if isinstance(value, bool) else f"{value:,}" if isinstance(value, int) else str(value)
