"""The figures of a partitioned topic: sums of its partitions', and those of each. No I/O."""

from collections.abc import Mapping, Sequence
from typing import Any

from mledger.broker.admin_rest.topics.figures.publish_times import CREATED, EARLIEST, EARLIEST_OF_TOPIC, LAST
from mledger.broker.admin_rest.topics.figures.topic_stats import AGE, NO_TYPE, OLDEST, Figures

_OF_ONE = ("backlogQuotaLimitSize", "backlogQuotaLimitTime")
_TIMES = (
    "lastExpireTimestamp",
    "lastConsumedFlowTimestamp",
    "lastConsumedTimestamp",
    "lastAckedTimestamp",
    "lastMarkDeleteAdvancedTimestamp",
)
_SIZE = "averageMsgSize"
_FIRST = (CREATED, EARLIEST, EARLIEST_OF_TOPIC)
"""The sum is the earliest of those that are known."""


def plan_partitioned_stats(partitions: Sequence[Mapping[str, Any]]) -> Figures:
    """The sums of numbers, also of those of each subscription; lists are joined, the rest is the first's."""
    summed: Figures = {}
    for each in partitions:
        for name, value in each.items():
            summed[name] = _joined(name, summed[name], value) if name in summed and name not in _OF_ONE else value
    for name in ("ownerBroker", "deduplicationStatus"):
        summed.pop(name, None)
    if AGE in summed:
        oldest = max(partitions, key=lambda each: each.get(AGE, 0))
        summed[AGE] = max(0, oldest.get(AGE, 0))
        if OLDEST in summed:
            summed[OLDEST] = oldest.get(OLDEST)
    if _SIZE in summed:
        summed[_SIZE] /= sum(_SIZE in each for each in partitions)
    summed.setdefault("publishers", [])
    summed["subscriptions"] = {name: _without_times(each) for name, each in summed.get("subscriptions", {}).items()}
    return summed


def _without_times(subscription: Mapping[str, Any]) -> Figures:
    """Times are those of partitions only, as in Pulsar."""
    return {name: 0 if name in _TIMES else value for name, value in subscription.items()}


def _joined(key: str, one: Any, other: Any) -> Any:
    if key in _FIRST:
        return min(one, other) if one and other else max(one, other)
    if key == LAST:
        return max(one, other)
    if isinstance(one, bool) or isinstance(other, bool):
        return one
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one + other
    if isinstance(one, list) and isinstance(other, list):
        return one + other
    if isinstance(one, dict) and isinstance(other, dict):
        return one | {name: _joined(name, one[name], value) if name in one else value for name, value in other.items()}
    return other if one in (None, NO_TYPE) else one
