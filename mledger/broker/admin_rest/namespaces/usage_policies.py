"""What is valid in the policies of how clients use topics: what they create, subscribe to, and leave unused. No I/O."""

from typing import Any

from mledger.broker.admin_rest.body_checks import json_object, known_fields, names
from mledger.broker.admin_rest.json_node import JsonObject
from mledger.broker.admin_rest.refusals import bad_request, precondition
from mledger.broker.settings import INACTIVE_MODES, PARTITIONED, SUBSCRIPTION_TYPES, TOPIC_TYPES

_INVALID = "Invalid configuration for autoTopicCreationOverride. the detail is "


def checked_auto_topics(value: Any) -> JsonObject | None:
    """How clients create topics, as it is stored; nothing unsets it."""
    if value is None:
        return None
    allowed = known_fields(value, "autoTopicCreation", {"allowAutoTopicCreation": False})["allowAutoTopicCreation"]
    kind, partitions = json_object(value, "autoTopicCreation").get("topicType"), None
    if value.get("defaultNumPartitions") is not None:
        partitions = known_fields(value, "autoTopicCreation", {"defaultNumPartitions": 0})["defaultNumPartitions"]
    if not isinstance(kind, str | None):
        raise bad_request("topicType of autoTopicCreation is not text")
    if allowed and (wrong := _wrong_type(kind, partitions)):
        raise precondition(_INVALID + wrong)
    return {"allowAutoTopicCreation": allowed, "topicType": kind, "defaultNumPartitions": partitions}


def _wrong_type(kind: str | None, partitions: int | None) -> str:
    if kind not in TOPIC_TYPES:
        return f"Unknown topic type [{'null' if kind is None else kind}]"
    if kind != PARTITIONED:
        if partitions is not None:
            return "[defaultNumPartitions] is not allowed to be set when the type is non-partition."
        return ""
    if partitions is None:
        return "[defaultNumPartitions] cannot be null when the type is partitioned."
    return "" if partitions > 0 else "[defaultNumPartitions] cannot be less than 1 for partition type."


def checked_auto_subscriptions(value: Any) -> JsonObject | None:
    """Whether clients create subscriptions, as it is stored; nothing unsets it."""
    if value is None:
        return None
    return known_fields(value, "autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False})


def checked_types(value: Any) -> list[str]:
    """The types of subscriptions that clients may use, as they are stored; none: those of the broker."""
    found = names(value, "the types of subscriptions")
    if unknown := set(found) - set(SUBSCRIPTION_TYPES):
        raise bad_request(f"{min(unknown)!r} is no type of subscriptions: use {', '.join(SUBSCRIPTION_TYPES)}")
    return found


def checked_inactive_topics(value: Any) -> JsonObject | None:
    """When topics without use are deleted, as it is stored; nothing unsets it."""
    if value is None:
        return None
    fields = {"maxInactiveDurationSeconds": 0, "deleteWhileInactive": False}
    mode = json_object(value, "inactiveTopicPolicies").get("inactiveTopicDeleteMode")
    if mode is not None and mode not in INACTIVE_MODES:
        raise bad_request(f"{mode!r} is no inactiveTopicDeleteMode: use {' or '.join(INACTIVE_MODES)}")
    return {"inactiveTopicDeleteMode": mode, **known_fields(value, "inactiveTopicPolicies", fields)}


def checked_subscribe_rate(value: Any) -> JsonObject | None:
    """How often a consumer may subscribe in a period, as it is stored; nothing unsets it."""
    if value is None:
        return None
    fields = {"subscribeThrottlingRatePerConsumer": -1, "ratePeriodInSecond": 30}
    return known_fields(value, "a subscribe rate", fields)
