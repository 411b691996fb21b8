"""Which Pulsar broker serves a topic, according to the brokers' nodes in the metadata store (M9); no I/O.

A broker serves bundles of a namespace: ranges of the CRC-32 of a topic's full name. With Pulsar's
older load managers, each served bundle has an ephemeral node below
`/namespace/<tenant>/<namespace>`. With the extensible load manager, it has an entry in a channel:
nodes below `/service_unit_state`, or messages of a system topic. The messages cannot be read here.
"""

import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from mledger.metastore.records.paths import TopicName
from mledger.metastore.store import Node

NAMESPACES = "/namespace"
CHANNEL = "/service_unit_state"
LIVE_BROKERS = "/loadbalance/brokers"
CLUSTERS = "/admin/clusters"
MLEDGER_BROKER = "mledger"
"""The load manager that brokers of ours name in their nodes."""

CHANNEL_ADDRESS = "//"
"""Begins the address of a broker that the channel knows by its name only."""

_RANGE = re.compile(r"0x([0-9a-fA-F]{8})_0x([0-9a-fA-F]{8})")
_LAST = 0xFFFFFFFF
_URLS = ("nativeUrl", "nativeUrlTls", "pulsarServiceUrl", "pulsarServiceUrlTls", "brokerServiceUrl", "httpUrl")
_WITH_CHANNEL = "ExtensibleLoadManager"
_SERVES = ("Owned", "Releasing", "Splitting", "Assigning")
"""States of the channel in which a broker serves the bundle, or is about to."""


class BrokerOwner(Struct, frozen=True):
    """A topic's owner: the node at `path` names it, `detail` describes it, `address` is a broker's URL."""

    path: str
    detail: str
    session: int = 0
    address: str = ""

    def __str__(self) -> str:
        return f"{self.detail} ({self.path})"


def bundle_folders(topic: TopicName) -> tuple[str, str]:
    """The folders of its namespace's bundles: that of the owners' nodes and that of the channel."""
    return f"{NAMESPACES}/{topic.namespace_name}", f"{CHANNEL}/{topic.namespace_name}"


def has_topic(bundle: str, topic: TopicName) -> bool:
    """Whether the bundle `0x…_0x…` contains the topic; a name that is not a range contains all topics."""
    found = _RANGE.fullmatch(bundle)
    if found is None:
        return True
    first, end = int(found[1], 16), int(found[2], 16)
    place = zlib.crc32(str(topic).encode())
    return first <= place < end or place == end == _LAST


def serving(
    topic: TopicName,
    owned: Mapping[str, Node | None],
    channel: Mapping[str, Node | None],
    brokers: Sequence[str],
    own_session: int = 0,
) -> BrokerOwner | None:
    """The broker that serves the topic, or None, according to its namespace's bundle nodes, by path.

    `brokers` are the names of the live brokers: a broker's channel nodes outlive it. Nodes of
    `own_session` are this program's, which may be a broker itself.
    """
    for path, node in owned.items():
        name = path.rpartition("/")[2]
        if node is not None and node.stat.ephemeral_owner not in (0, own_session) and has_topic(name, topic):
            address = _address(_fields(node.data))
            who = f"the Pulsar broker {address}" if address else "a Pulsar broker"
            return BrokerOwner(path, f"{who} serves its bundle {name}", node.stat.ephemeral_owner, address)
    for path, node in channel.items():
        name = path.rpartition("/")[2]
        content = _fields(node.data) if node is not None and has_topic(name, topic) else {}
        broker = str(content.get("dstBroker") or content.get("sourceBroker"))
        if content.get("state") in _SERVES and broker in brokers:
            return BrokerOwner(
                path, f"the Pulsar broker {broker} serves its bundle {name}", address=f"{CHANNEL_ADDRESS}{broker}"
            )
    return None


def unseen(brokers: Mapping[str, Node | None], *, has_channel: bool, own_session: int = 0) -> BrokerOwner | None:
    """The first of these live brokers whose served bundles are not visible here, or None.

    `has_channel`: the channel's nodes exist, so the bundles of the extensible load manager are
    visible. `own_session` as in `serving`.
    """
    for path, node in brokers.items():
        if node is None or node.stat.ephemeral_owner in (0, own_session):
            continue
        content = _fields(node.data)
        manager = content.get("loadManagerClassName", "")
        is_visible = manager == MLEDGER_BROKER or bool(content.get("webServiceUrl") or content.get("webServiceUrlTls"))
        if not is_visible or (_WITH_CHANNEL in str(manager) and not has_channel):
            name = path.rpartition("/")[2]
            return BrokerOwner(
                path,
                f"the Pulsar broker {name} is live, and which bundles it serves cannot be seen",
                node.stat.ephemeral_owner,
                _address(content),
            )
    return None


def came_to_serve(before: BrokerOwner | None, now: BrokerOwner | None) -> bool:
    """Whether a broker serves the topic now that did not serve it `before`."""
    return now is not None and (before is None or (now.path, now.session) != (before.path, before.session))


def of_mledger(data: bytes) -> bool:
    """Whether a broker's node is that of an mledger broker."""
    return _fields(data).get("loadManagerClassName") == MLEDGER_BROKER


def web_url_of(data: bytes, *, encrypted: bool = False) -> str:
    """The HTTP address in a bundle's node or in a broker's own, the encrypted one first if so; empty if none."""
    content, plain, tls = _fields(data), ("httpUrl", "webServiceUrl"), ("httpUrlTls", "webServiceUrlTls")
    keys = (*tls, *plain) if encrypted else (*plain, *tls)
    return next((str(content[key]) for key in keys if content.get(key)), "")


def live(names: Iterable[str]) -> list[str]:
    """The paths of the nodes of live brokers."""
    return [f"{LIVE_BROKERS}/{name}" for name in names]


def _fields(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _address(content: Mapping[str, Any]) -> str:
    return next((str(content[key]) for key in _URLS if content.get(key)), "")
