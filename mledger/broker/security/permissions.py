"""What a role may do in a namespace, by Pulsar's policies and its tenant's administrators. No I/O.

- Super users and the tenant's administrators may do everything.
- Others need `produce` or `consume`, granted in the namespace (`namespace_auth`) or for the topic (`destination_auth`;
  that of a partitioned topic holds for its partitions). Either of them is enough to look a topic up.
- Messages in `__change_events` are the policies of topics, which only administrators may set: to publish there is
  granted for that topic itself only. So is the subscription `__compaction` of this and of Pulsar's other compacted
  topics: what they keep is deleted with it.
- A subscription with roles of its own (`subscription_auth_roles`) is for these. With `subscription_auth_mode` Prefix,
  its name begins with the role.
"""

import enum
import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from mledger.cursors.compaction import CHANGE_EVENTS, COMPACTION, is_always_compacted
from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import TopicName

PRODUCE, CONSUME = "produce", "consume"
Grants = Mapping[str, frozenset[str]]
"""The actions that each role may do."""


class TopicOperation(enum.Enum):
    """What a client does with a topic."""

    LOOKUP = "look up"
    PRODUCE = "publish to"
    CONSUME = "consume"


_ACTIONS = {
    TopicOperation.LOOKUP: (PRODUCE, CONSUME),
    TopicOperation.PRODUCE: (PRODUCE,),
    TopicOperation.CONSUME: (CONSUME,),
}


class Permissions(Struct, frozen=True):
    """The permissions of a namespace, and the administrators of its tenant."""

    admins: frozenset[str] = frozenset()
    namespace: Grants = field(default_factory=dict)
    topics: Mapping[str, Grants] = field(default_factory=dict)
    subscriptions: Grants = field(default_factory=dict)
    prefixed_subscriptions: bool = False


class RoleRules(Struct, frozen=True):
    """The broker's own rules: roles that may do everything, and whether `role*` and `*role` are granted to many."""

    super_users: frozenset[str] = frozenset()
    wildcards: bool = False


def decode_permissions(tenant: bytes | None, policies: bytes | None, path: str) -> Permissions:
    """Permissions from the nodes of a tenant and of its namespace at `path`; None for a node that does not exist.

    Raises:
        RecordError: a node cannot be read; nothing is permitted then.
    """
    try:
        found = _object(json.loads(policies)) if policies else {}
        auth = _object(found.get("auth_policies") or {})
        topics = _object(auth.get("destination_auth") or {})
        return Permissions(
            admins=frozenset(_texts(_object(json.loads(tenant)).get("adminRoles"))) if tenant else frozenset(),
            namespace=_grants(auth.get("namespace_auth")),
            topics={topic: _grants(grants) for topic, grants in topics.items()},
            subscriptions=_grants(auth.get("subscription_auth_roles")),
            prefixed_subscriptions=found.get("subscription_auth_mode") == "Prefix",
        )
    except (ValueError, RecursionError) as error:
        raise RecordError(f"the permissions at {path} cannot be read: {error}", path) from None


def may_use_topic(
    role: str,
    operation: TopicOperation,
    topic: TopicName,
    permissions: Permissions,
    rules: RoleRules,
    subscription: str = "",
) -> bool:
    """Whether the role may do this with the topic, and with `subscription` if one is named."""
    if role in rules.super_users or role in permissions.admins:
        return True
    grants = _of_topic(topic, permissions)
    if not _needs_own_grant(operation, topic, subscription):
        grants = [permissions.namespace, *grants]
    actions = _ACTIONS[operation]
    if subscription and operation is TopicOperation.CONSUME:
        own = permissions.subscriptions.get(subscription)
        if (own and role not in own) or (permissions.prefixed_subscriptions and not subscription.startswith(role)):
            return False
    return any(_granted(role, action, each, rules) for action in actions for each in grants)


def _needs_own_grant(operation: TopicOperation, topic: TopicName, subscription: str) -> bool:
    """Whether this is granted for the topic itself only, not with all of its namespace."""
    match operation:
        case TopicOperation.PRODUCE:
            return topic.partitioned.local_name == CHANGE_EVENTS
        case TopicOperation.CONSUME:
            return subscription == COMPACTION and is_always_compacted(topic)
        case _:
            return False


def may_use_namespace(role: str, permissions: Permissions, rules: RoleRules) -> bool:
    """Whether the role may list the topics of the namespace."""
    if role in rules.super_users or role in permissions.admins:
        return True
    return any(_granted(role, action, permissions.namespace, rules) for action in (PRODUCE, CONSUME))


def _of_topic(topic: TopicName, permissions: Permissions) -> list[Grants]:
    return [permissions.topics.get(str(name), {}) for name in dict.fromkeys((topic, topic.partitioned))]


def _granted(role: str, action: str, grants: Grants, rules: RoleRules) -> bool:
    if action in grants.get(role, ()):
        return True
    return rules.wildcards and any(
        action in actions
        and (
            (granted.endswith("*") and role.startswith(granted[:-1]))
            or (granted.startswith("*") and role.endswith(granted[1:]))
        )
        for granted, actions in grants.items()
    )


def _object(found: Any) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise ValueError("an object is needed")
    return found


def _grants(found: Any) -> Grants:
    return {role: frozenset(_texts(actions)) for role, actions in _object(found or {}).items()}


def _texts(found: Any) -> list[str]:
    if found is not None and not isinstance(found, list):
        raise ValueError("a list is needed")
    return [text for text in found or () if isinstance(text, str)]
