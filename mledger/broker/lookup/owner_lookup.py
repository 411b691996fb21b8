"""Which broker serves a topic: the owner of its bundle, which a bundle without one gets now."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from msgspec import Struct, field

from mledger.admin.namespaces import require_namespace
from mledger.broker.lookup.broker_records import bundle_owner_urls, is_disabled
from mledger.broker.lookup.bundle_ranges import plan_bundle, plan_namespace
from mledger.broker.lookup.owned_bundles import Bundle, OwnedBundles
from mledger.broker.lookup.owner_choice import plan_owner
from mledger.broker.lookup.roster import BrokerRoster
from mledger.broker.refusals import BrokerRefusal
from mledger.broker.service_urls import ServiceUrls
from mledger.ledgers.background import outcome
from mledger.ledgers.bundles import CHANNEL_ADDRESS, BrokerOwner
from mledger.ledgers.ownership import find_broker
from mledger.metastore.errors import BadVersion
from mledger.metastore.records.paths import LOCAL_POLICIES, NAMESPACE_POLICIES, TopicName
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.store import Check, MetadataStore
from mledger.pb import PulsarApi_pb2 as pb

T = TypeVar("T")

ASSIGNED_S = 10.0
"""How long a bundle counts as the broker's to which a client was sent, until that broker reports it."""
UNLOAD_S = 10.0
"""How long a lookup waits for a bundle that is just being unloaded."""
_ATTEMPTS = 3


class FoundOwner(NamedTuple):
    """Where a client goes: to the owner, or with `redirect` to a broker that will be the owner once it is asked."""

    urls: ServiceUrls
    redirect: bool = False


class _Namespace(NamedTuple):
    boundaries: tuple[int, ...]
    checks: tuple[Check, ...]


class OwnerLookup(Struct):
    """Lookups at the broker of `roster`. `default_bundles`: of a namespace without policies."""

    store: MetadataStore
    roster: BrokerRoster
    owned: OwnedBundles
    default_bundles: int
    stopping: bool = False
    """Whether this broker owns no more bundles than it does."""
    _shared: dict[Hashable, "asyncio.Task[Any]"] = field(default_factory=dict)
    _assigned: dict[str, tuple[str, float]] = field(default_factory=dict)

    def serves(self, topic: TopicName) -> bool:
        """Whether this broker owns the topic's bundle. BrokerRefusal if it is giving it up."""
        return self.owned.of(topic) is not None

    async def take(self, topic: TopicName) -> None:
        """Own the topic's bundle unless another broker does: a client wants the topic from this one.

        Raises:
            BrokerRefusal: another broker owns it, or this one stops.
            NamespaceNotFound: there is no such namespace.
            MetadataError: the owner cannot be read.
        """
        await self.owned.settled(topic, UNLOAD_S)
        if self.serves(topic):
            return
        found = await self.find(topic, authoritative=True)
        if found.urls.any != self.roster.address.urls.any:
            raise BrokerRefusal(pb.ServiceNotReady, f"{topic} is served by {found.urls.any}: look it up again")

    async def find(self, topic: TopicName, *, authoritative: bool = False) -> FoundOwner:
        """The owner of the topic's bundle, or the broker to ask.

        A bundle that nobody owns goes to the broker with the fewest; `authoritative` says that a
        broker chose this one. Lookups of one bundle at the same time are one.

        Raises:
            BrokerRefusal: the bundle is just being unloaded, or no broker can take it.
            NamespaceNotFound: there is no such namespace.
            MetadataError: the owner cannot be read.
        """
        for _ in range(_ATTEMPTS):
            await self.owned.settled(topic, UNLOAD_S)
            if self.serves(topic):
                return self._here()
            namespace = await self._share(topic.namespace_name, partial(self._namespace, topic))
            bundle = Bundle(topic.namespace_name, plan_bundle(topic, namespace.boundaries))
            try:
                work = partial(self._find, bundle, topic, namespace.checks, authoritative)
                return await self._share((bundle, authoritative), work)
            except BadVersion:  # the namespace was split otherwise meanwhile
                continue
        raise BrokerRefusal(pb.ServiceNotReady, f"the bundles of {topic.namespace_name} keep changing: try again")

    async def bundle(self, topic: TopicName) -> str:
        """The name of the topic's bundle. NamespaceNotFound, MetadataError."""
        return plan_bundle(topic, (await self._namespace(topic)).boundaries)

    def _here(self) -> FoundOwner:
        return FoundOwner(self.roster.address.urls)

    async def _namespace(self, topic: TopicName) -> _Namespace:
        paths = [f"{root}/{topic.namespace_name}" for root in (LOCAL_POLICIES, NAMESPACE_POLICIES)]
        local, policies = await self.store.get_many(paths)
        if policies is None:
            await require_namespace(self.store, topic.namespace_name)
        checks = () if local is None else (Check(paths[0], local.version),)
        return _Namespace(plan_namespace(local, policies, paths[1], self.default_bundles), checks)

    async def _find(
        self, bundle: Bundle, topic: TopicName, checks: tuple[Check, ...], authoritative: bool
    ) -> FoundOwner:
        owner = await self._owner(topic)
        left_behind = owner is not None and owner.address == self.roster.address.urls.any
        if owner is not None and not left_behind:
            return FoundOwner(await self._urls_of(owner))
        if self.stopping or not (authoritative or left_behind):
            excluded = (self.roster.address.name,) if self.stopping else ()
            chosen = plan_owner(await self.roster.reports(), self._recently_assigned(), str(bundle), excluded)
            if chosen is None:
                raise BrokerRefusal(pb.ServiceNotReady, f"no broker can take the bundle {bundle}: try again")
            self._assigned[str(bundle)] = chosen.name, asyncio.get_running_loop().time()
            if chosen.name != self.roster.address.name:
                return FoundOwner(chosen.urls, redirect=True)
        urls = await self.owned.claim(bundle, checks)
        self.roster.changed()
        return FoundOwner(urls)

    async def _owner(self, topic: TopicName) -> BrokerOwner | None:
        """The broker that serves the topic, not counting this one; one that is unloading it may end that first."""
        name = topic.managed_ledger_name
        owner = await find_broker(self.store, name, own_session=self.store.session_id)
        if owner is not None and await self._is_ending(owner.path):
            with contextlib.suppress(TimeoutError):
                async with TimeLimit(UNLOAD_S), self.store.watch(owner.path) as changes:
                    while await self._is_ending(owner.path, gone=False):
                        await anext(changes)
            owner = await find_broker(self.store, name, own_session=self.store.session_id)
        return owner

    async def _is_ending(self, path: str, *, gone: bool = True) -> bool:
        """Whether the owner with this node unloads the bundle; `gone`: what counts if it has meanwhile."""
        (node,) = await self.store.get_many([path])
        return gone if node is None else is_disabled(node.data)

    def _recently_assigned(self) -> dict[str, str]:
        oldest = asyncio.get_running_loop().time() - ASSIGNED_S
        self._assigned = {bundle: each for bundle, each in self._assigned.items() if each[1] > oldest}
        mine = {str(bundle) for bundle in self.owned}
        return {bundle: name for bundle, (name, _) in self._assigned.items() if bundle not in mine}

    async def _urls_of(self, owner: BrokerOwner) -> ServiceUrls:
        """The service URLs of a bundle's owner. BrokerRefusal if it has none that clients can use."""
        if owner.address.startswith(CHANNEL_ADDRESS):
            name = owner.address.removeprefix(CHANNEL_ADDRESS)
            for report in await self.roster.reports():
                if report.address.name == name:
                    return report.address.urls
        if not owner.address.startswith("pulsar"):
            raise BrokerRefusal(pb.ServiceNotReady, f"where clients reach the owner cannot be told: {owner}")
        (node,) = await self.store.get_many([owner.path])
        urls = ServiceUrls() if node is None else bundle_owner_urls(node.data)
        return urls if owner.address in urls else ServiceUrls(owner.address)

    async def _share(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of `work`, of which one at a time runs for a key."""
        task = self._shared.get(key)
        if task is None:
            task = self._shared[key] = asyncio.get_running_loop().create_task(work())
            task.add_done_callback(lambda _: self._shared.pop(key, None))
        found = await outcome(task, lambda: BrokerRefusal(pb.ServiceNotReady, "the lookup was given up: try again"))
        return cast("T", found)
