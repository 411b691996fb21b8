"""What brokers write about themselves and about the bundles they serve, in Pulsar's JSON. No I/O.

A broker's own node is below `/loadbalance/brokers`, a served bundle's below `/namespace`.
"""

import json
import math
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from mledger.broker.service_urls import ServiceUrls
from mledger.ledgers.bundles import MLEDGER_BROKER


class BrokerAddress(Struct, frozen=True):
    """Where clients reach a broker; `name` is that of its node, host:port. Without a web URL it serves no HTTP."""

    name: str
    url: str
    url_tls: str = ""
    web_url: str = ""
    web_url_tls: str = ""

    @property
    def urls(self) -> ServiceUrls:
        """Its service URLs."""
        return ServiceUrls(self.url, self.url_tls)


class BrokerReport(Struct, frozen=True):
    """What a live broker said last: its address and the bundles that it serves, as tenant/namespace/range."""

    address: BrokerAddress
    bundles: frozenset[str] = frozenset()
    unnamed: int = 0
    """How many it serves besides."""

    @property
    def count(self) -> int:
        """How many bundles it serves."""
        return len(self.bundles) + self.unnamed


class ResourceUsage(Struct, frozen=True):
    """How much of a resource is used, and how much there is; 0 of 0 if that is not known."""

    usage: float = 0.0
    limit: float = 0.0

    @property
    def share(self) -> float:
        """The part that is used, 0 if that is not known."""
        return self.usage / self.limit if self.limit > 0 else 0.0


NOT_KNOWN = ResourceUsage()


class HostUsage(Struct, frozen=True):
    """How busy a broker's machine is: percent of a processor, MiB of memory, and kbit per second."""

    cpu: ResourceUsage = NOT_KNOWN
    memory: ResourceUsage = NOT_KNOWN
    bandwidth_in: ResourceUsage = NOT_KNOWN
    bandwidth_out: ResourceUsage = NOT_KNOWN

    @property
    def highest(self) -> float:
        """The share of the resource that is used most, of those by which Pulsar moves bundles: not of memory."""
        return max(self.cpu.share, self.bandwidth_in.share, self.bandwidth_out.share)


NO_USAGE = HostUsage()


class BrokerLoad(Struct, frozen=True):
    """What a broker has to do: its bundles as tenant/namespace/range, its clients, and their rates per second."""

    bundles: Collection[str] = ()
    topics: int = 0
    producers: int = 0
    consumers: int = 0
    messages_in: float = 0.0
    bytes_in: float = 0.0
    messages_out: float = 0.0
    bytes_out: float = 0.0
    host: HostUsage = NO_USAGE


def plan_report(reported: BrokerLoad, load: BrokerLoad, threshold_percent: float) -> bool:
    """Whether a broker that reported one load should report another: it has changed by more than the threshold.

    Bundles and rates change by percent of what was reported, and the machine's busiest resource by percent of the
    resource: Pulsar compares that, too, with what was reported, by which an idle machine changes all the time.
    """
    changes = (
        _change(len(reported.bundles), len(load.bundles)),
        _change(reported.messages_in + reported.messages_out, load.messages_in + load.messages_out),
        _change(reported.bytes_in + reported.bytes_out, load.bytes_in + load.bytes_out),
        100 * abs(load.host.highest - reported.host.highest),
    )
    return max(changes) > threshold_percent


def _change(before: float, now: float) -> float:
    if before == now:
        return 0.0
    return 100 * abs(now - before) / before if before else math.inf


def report_content(
    address: BrokerAddress,
    load: BrokerLoad,
    *,
    started_ms: int,
    now_ms: int,
    persistent: bool = True,
    nonpersistent: bool = True,
) -> dict[str, Any]:
    """A broker's URLs and load, as Pulsar's load managers read them.

    `persistent` and `nonpersistent`: whether it serves such topics.
    """
    return {
        **_given(
            webServiceUrl=address.web_url,
            webServiceUrlTls=address.web_url_tls,
            pulsarServiceUrl=address.url,
            pulsarServiceUrlTls=address.url_tls,
        ),
        "persistentTopicsEnabled": persistent,
        "nonPersistentTopicsEnabled": nonpersistent,
        "cpu": _usage(load.host.cpu),
        "memory": _usage(load.host.memory),
        "directMemory": _usage(NOT_KNOWN),
        "bandwidthIn": _usage(load.host.bandwidth_in),
        "bandwidthOut": _usage(load.host.bandwidth_out),
        "msgThroughputIn": load.bytes_in,
        "msgThroughputOut": load.bytes_out,
        "msgRateIn": load.messages_in,
        "msgRateOut": load.messages_out,
        "lastUpdate": now_ms,
        "lastStats": {},
        "numTopics": load.topics,
        "numBundles": len(load.bundles),
        "numConsumers": load.consumers,
        "numProducers": load.producers,
        "bundles": sorted(load.bundles),
        "lastBundleGains": [],
        "lastBundleLosses": [],
        "brokerVersionString": MLEDGER_BROKER,
        "protocols": {},
        "advertisedListeners": {},
        "loadManagerClassName": MLEDGER_BROKER,
        "startTimestamp": started_ms,
        "maxResourceUsage": load.host.highest,
        "loadReportType": "LocalBrokerData",
    }


def _usage(found: ResourceUsage) -> dict[str, float]:
    return {"usage": found.usage, "limit": found.limit}


def encode_report(content: Mapping[str, Any]) -> bytes:
    """A broker's node with what `report_content` has."""
    return json.dumps(content).encode()


def decode_report(name: str, data: bytes) -> BrokerReport | None:
    """What the broker of the node `name` said, Java's or ours; None if clients cannot reach it by it."""
    content = _content(data)
    keys = ("pulsarServiceUrl", "pulsarServiceUrlTls", "webServiceUrl", "webServiceUrlTls")
    address = BrokerAddress(name, *(str(content.get(key) or "") for key in keys))
    if not address.urls.any:
        return None
    named, count = content.get("bundles"), content.get("numBundles")
    bundles = frozenset(map(str, named)) if isinstance(named, list) else frozenset()
    return BrokerReport(address, bundles, max(0, count - len(bundles)) if isinstance(count, int) else 0)


def encode_bundle_owner(address: BrokerAddress, *, disabled: bool = False) -> bytes:
    """The node of a bundle that the broker at `address` serves; `disabled` while it unloads the bundle."""
    urls = _given(
        nativeUrl=address.url,
        nativeUrlTls=address.url_tls,
        httpUrl=address.web_url,
        httpUrlTls=address.web_url_tls,
    )
    return json.dumps({**urls, "disabled": disabled, "advertisedListeners": {}}).encode()


def bundle_owner_urls(data: bytes) -> ServiceUrls:
    """The service URLs of the broker that wrote a bundle's node."""
    content = _content(data)
    return ServiceUrls(str(content.get("nativeUrl") or ""), str(content.get("nativeUrlTls") or ""))


def is_disabled(data: bytes) -> bool:
    """Whether a bundle's node says that the bundle is to be unloaded."""
    return _content(data).get("disabled") is True


def _given(**urls: str) -> Mapping[str, str]:
    return {key: url for key, url in urls.items() if url}


def _content(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
