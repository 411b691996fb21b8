"""The policies that a namespace is created with: checked as if each were set by itself. No I/O.

Java reads nothing of a node in which one field is of another type than its own, and opens no topic of the namespace.
"""

from collections.abc import Callable, Mapping
from typing import Any

from mledger.broker.admin_rest.body_checks import json_object, names, texts
from mledger.broker.admin_rest.json_node import JsonObject
from mledger.broker.admin_rest.namespaces.permission_resource import checked_actions
from mledger.broker.admin_rest.namespaces.policies_node import SHOWN
from mledger.broker.admin_rest.namespaces.policy_table import POLICIES, NamespacePolicy, checked_quota, quota_kind
from mledger.broker.admin_rest.refusals import bad_request

_Check = Callable[[Any], Any]


def plan_checked_policies(given: Mapping[str, Any]) -> JsonObject:
    """What to store of these policies, without those that Pulsar does not know either.

    AdminRefusal for one that is not valid, or that this broker does not set.
    """
    known = {field: value for field, value in given.items() if field in _KNOWN and value is not None}
    return {field: _checked(field, value) for field, value in known.items()}


def _checked(field: str, value: Any) -> Any:
    if field in SHOWN and value == SHOWN[field] and type(value) is type(SHOWN[field]):
        return value
    check = _CHECKS.get(field)
    if check is not None:
        return check(value)
    raise bad_request(f"this broker creates no namespace with {field}: leave it out")


def _map(what: str, check: _Check) -> _Check:
    """A check of an object whose values `check` takes."""
    return lambda value: {name: check(each) for name, each in json_object(value, what).items() if each is not None}


def _quotas(value: Any) -> JsonObject:
    found = json_object(value, "backlog quotas")
    return {quota_kind(kind).value: checked_quota(quota, kind) for kind, quota in found.items()}


def _permissions(value: Any) -> JsonObject:
    found = json_object(value, "permissions")
    if unknown := found.keys() - _GRANTS.keys():
        raise bad_request(f"there are no permissions {min(unknown)}: use {', '.join(_GRANTS)}")
    return {part: _GRANTS[part](grants) for part, grants in found.items() if grants is not None}


def _of_policy(policy: NamespacePolicy) -> _Check:
    return _map(policy.path, policy.check) if policy.per_cluster else policy.check


def _auto_update(value: Any) -> str:
    if value not in _AUTO_UPDATE:
        raise bad_request(f"{value!r} is no strategy of updates: use one of {', '.join(_AUTO_UPDATE)}")
    return str(value)


_AUTO_UPDATE = (
    "AutoUpdateDisabled",
    "Backward",
    "Forward",
    "Full",
    "AlwaysCompatible",
    "BackwardTransitive",
    "ForwardTransitive",
    "FullTransitive",
)
_ACTIONS = _map("actions by role", checked_actions)
_GRANTS: Mapping[str, _Check] = {
    "namespace_auth": _ACTIONS,
    "destination_auth": _map("permissions by topic", _ACTIONS),
    "subscription_auth_roles": _map("roles by subscription", lambda value: names(value, "the roles")),
}
_CHECKS: Mapping[str, _Check] = {
    **{field: _of_policy(policy) for policy in POLICIES for field in (policy.field, *policy.also)},
    "backlog_quota_map": _quotas,
    "auth_policies": _permissions,
    "properties": lambda value: texts(value, "the properties"),
    "schema_auto_update_compatibility_strategy": _auto_update,  # older clients always send Full
}
_NOT_SET = (
    "allowed_topic_property_keys_for_metrics",
    "dispatcherPauseOnAckStatePersistentEnabled",
    "entryFilters",
    "offload_deletion_lag_ms",
    "offload_policies",
    "resource_group_name",
    "subscription_expiration_time_minutes",
)
"""Pulsar's other policies, which this broker would not follow."""
_KNOWN = _CHECKS.keys() | SHOWN.keys() | frozenset(_NOT_SET)
