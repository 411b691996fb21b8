"""The bundles that this broker owns: an ephemeral node for each, which only one broker can create."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from mledger.broker.lookup.broker_records import (
    BrokerAddress,
    bundle_owner_urls,
    encode_bundle_owner,
    is_disabled,
)
from mledger.broker.lookup.bundle_ranges import bundle_names, decode_boundaries
from mledger.broker.refusals import BrokerRefusal
from mledger.broker.service_urls import NOWHERE, ServiceUrls
from mledger.ledgers.bundles import NAMESPACES, has_topic
from mledger.metastore.errors import BadVersion, NodeExists, NodeNotFound, RecordError
from mledger.metastore.records.paths import LOCAL_POLICIES, TopicName
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import Check, Create, Delete, MetadataStore, Operation
from mledger.pb import PulsarApi_pb2 as pb

log = get_logger(__name__)

ATTEMPTS = 5


class Bundle(NamedTuple):
    """A bundle of a namespace, tenant/namespace, by its range 0x…_0x…."""

    namespace: str
    range: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.range}"

    @property
    def path(self) -> str:
        """The node of its owner."""
        return f"{NAMESPACES}/{self.namespace}/{self.range}"

    def contains(self, topic: TopicName) -> bool:
        """Whether it is the topic's bundle."""
        return topic.namespace_name == self.namespace and has_topic(self.range, topic)


class OwnedBundles:
    """The bundles of the broker at `address`."""

    def __init__(self, store: MetadataStore, address: BrokerAddress) -> None:
        self._store = store
        self._address = address
        self._data = encode_bundle_owner(address)
        self._owned: dict[str, set[Bundle]] = {}
        self._leaving: dict[Bundle, asyncio.Event] = {}
        self.on_owned: Callable[[Bundle], object] = lambda _: None
        """Called with each bundle that becomes this broker's."""

    def __iter__(self) -> Iterator[Bundle]:
        return iter([bundle for bundles in self._owned.values() for bundle in bundles])

    def __contains__(self, bundle: Bundle) -> bool:
        return bundle in self._owned.get(bundle.namespace, ())

    def is_leaving(self, bundle: Bundle) -> bool:
        """Whether the bundle's topics are refused already."""
        return bundle in self._leaving

    def of(self, topic: TopicName) -> Bundle | None:
        """The topic's bundle if this broker serves it, else None.

        Raises:
            BrokerRefusal: the broker is giving it up just now.
        """
        found = next((each for each in self._owned.get(topic.namespace_name, ()) if each.contains(topic)), None)
        if found in self._leaving:
            raise BrokerRefusal(pb.ServiceNotReady, f"the bundle {found} of {topic} is being unloaded: try again")
        return found

    async def claim(self, bundle: Bundle, checks: Sequence[Check] = ()) -> ServiceUrls:
        """Own the bundle if nobody else does; returns its owner's service URLs.

        The node of an earlier process with this broker's own address counts as nobody's: two
        processes cannot listen there. `checks` must hold at the time of the claim.

        A bundle that was split before its node was there is nobody's: others may serve its parts.

        Raises:
            BadVersion: one of `checks` does not hold, or the bundle was split meanwhile.
            BrokerRefusal: others keep claiming it, or its owner cannot be told.
        """
        for _ in range(ATTEMPTS):
            session = self._store.session_id
            try:
                node = await self._store.get(bundle.path)
            except NodeNotFound:
                node = None
            owner = self._address.urls if node is None else bundle_owner_urls(node.data)
            if owner.any == self._address.urls.any:
                mine = node is not None and node.stat.ephemeral_owner == session
                before = [] if node is None else [Delete(bundle.path, node.version)]
                if not mine and not await self._create(bundle, [*checks, *before]):
                    continue
                if bundle not in self and not await self._check_there(bundle) and bundle not in self:
                    raise BadVersion(f"the bundle {bundle} was split meanwhile", _policies_path(bundle))
                if session == self._store.session_id:
                    self._add(bundle)
                    return self._address.urls
            elif owner.any:
                return owner
            else:
                raise BrokerRefusal(pb.ServiceNotReady, f"the bundle {bundle} has an owner that names no URL")
        raise BrokerRefusal(pb.ServiceNotReady, f"the owner of the bundle {bundle} keeps changing: try again")

    async def _check_there(self, bundle: Bundle) -> bool:
        """Whether the namespace still has the bundle, whose node is there; else the node is removed.

        A split that comes later finds the node, and has the bundle unloaded.
        """
        path = _policies_path(bundle)
        (node,) = await self._store.get_many([path])
        try:
            boundaries = () if node is None or not node.data else decode_boundaries(node.data, path)
        except RecordError:  # nobody can have found other bundles there
            return True
        if not boundaries or bundle.range in bundle_names(boundaries):
            return True
        await self._remove(bundle)
        return False

    def _add(self, bundle: Bundle) -> None:
        bundles = self._owned.setdefault(bundle.namespace, set())
        if bundle not in bundles:
            bundles.add(bundle)
            log.info("bundle_owned", bundle=bundle)
            self.on_owned(bundle)

    async def _create(self, bundle: Bundle, before: Sequence[Operation]) -> bool:
        """Create the node; False if another change came first."""
        try:
            await self._store.multi([*before, Create(bundle.path, self._data, ephemeral=True)])
        except NodeNotFound:
            with contextlib.suppress(NodeExists):
                await self._store.create(f"{NAMESPACES}/{bundle.namespace}", parents=True)
            return False
        except NodeExists:
            return False
        except BadVersion as error:
            if error.path == bundle.path:
                return False
            raise
        return True

    async def leave(self, bundle: Bundle) -> None:
        """Refuse the bundle's topics from now on, until it is released, and say so in its node.

        Raises:
            MetadataError: its node could not be marked.
        """
        self._leaving.setdefault(bundle, asyncio.Event())
        (node,) = await self._store.get_many([bundle.path])
        if node is not None and node.stat.ephemeral_owner == self._store.session_id and not is_disabled(node.data):
            with contextlib.suppress(NodeNotFound, BadVersion):
                await self._store.put(bundle.path, encode_bundle_owner(self._address, disabled=True), node.version)

    def stay(self, bundle: Bundle) -> None:
        """Serve a bundle's topics again that could not be released."""
        if (left := self._leaving.pop(bundle, None)) is not None:
            left.set()

    async def settled(self, topic: TopicName, timeout: float) -> None:
        """Wait at most `timeout` seconds while the topic's bundle is being unloaded here.

        Clients that ask meanwhile would take an error for the end of their whole connection.
        """
        left = next((left for bundle, left in self._leaving.items() if bundle.contains(topic)), None)
        if left is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(left.wait(), timeout)

    async def release(self, bundle: Bundle) -> None:
        """Remove the node of a bundle whose topics are closed."""
        await self._remove(bundle)
        self.forget(bundle)
        log.info("bundle_released", bundle=bundle)

    async def _remove(self, bundle: Bundle) -> None:
        with contextlib.suppress(NodeNotFound, BadVersion):
            node = await self._store.get(bundle.path)
            if node.stat.ephemeral_owner == self._store.session_id:
                await self._store.delete(bundle.path, node.version)

    def forget(self, bundle: Bundle) -> None:
        """The bundle is another broker's, or nobody's."""
        self._owned.get(bundle.namespace, set()).discard(bundle)
        self.stay(bundle)

    async def reclaim(self) -> list[Bundle]:
        """Create the nodes again after the session that held them ended; returns the bundles that others own now.

        Others may own parts of a bundle that was split meanwhile.

        Raises:
            StoreUnavailable: the store does not answer; what is not reclaimed yet is still owned here.
        """
        bundles = [each for each in self if each not in self._leaving]
        owners = await asyncio.gather(*map(self._claim_again, bundles))
        lost = [each for each, owner in zip(bundles, owners, strict=True) if owner.any != self._address.urls.any]
        for bundle in lost:
            self.forget(bundle)
            log.warning("bundle_lost", bundle=bundle)
        return lost

    async def _claim_again(self, bundle: Bundle) -> ServiceUrls:
        """As `claim`, of a bundle that this broker had; NOWHERE if it was split."""
        found = await self.claim(bundle)
        ours = found.any == self._address.urls.any
        return NOWHERE if ours and not await self._check_there(bundle) else found


def _policies_path(bundle: Bundle) -> str:
    return f"{LOCAL_POLICIES}/{bundle.namespace}"
