"""This broker's bundles over its life: it registers, gives bundles up, and copes with the end of its session."""

import asyncio
from functools import partial

from mledger.broker.lookup.broker_records import bundle_owner_urls, is_disabled
from mledger.broker.lookup.owned_bundles import Bundle
from mledger.broker.lookup.owner_choice import plan_owner
from mledger.broker.lookup.owner_lookup import OwnerLookup
from mledger.broker.service_urls import NOWHERE, ServiceUrls
from mledger.broker.topics.topic_loads import BrokerTopics
from mledger.metastore.errors import MetadataError, MledgerError, StoreClosed, StoreUnavailable
from mledger.metastore.runtime.logs.failed_rounds import OutlivedRound, log_failure
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import SessionState

log = get_logger(__name__)

RETRY_S = 0.5
UNLOADED_AT_ONCE = 16
STORE_GONE_S = 5.0
"""A broker that stops waits so long for its connection to the metadata store."""


class BundleHandover:
    """Moves bundles away from this broker, with their topics."""

    def __init__(self, lookup: OwnerLookup, topics: BrokerTopics) -> None:
        self._lookup = lookup
        self._topics = topics
        self._reclaiming: asyncio.Task[None] | None = None
        self._sessions_ended = 0
        self._following: dict[Bundle, asyncio.Task[None]] = {}
        lookup.owned.on_owned = self._follow

    async def start(self) -> None:
        """Register this broker: from now on others assign bundles to it. MetadataError if that fails."""
        await self._lookup.roster.register()

    async def unload(self, bundle: Bundle) -> None:
        """Close the bundle's topics, and give it up.

        Clients are told which broker is to have it, where there is another, and look their topics up
        again if they cannot use that. A bundle that this broker does not own is left alone.

        Raises:
            MetadataError: its node is not removed; the bundle stays here, without open topics.
        """
        if bundle not in self._lookup.owned or self._lookup.owned.is_leaving(bundle):
            return
        try:
            await self._lookup.owned.leave(bundle)
            await self._topics.give_up(bundle.contains, await self._next_owner(bundle), bundle.namespace)
            await self._lookup.owned.release(bundle)
        except BaseException:
            self._lookup.owned.stay(bundle)
            raise
        self._lookup.roster.changed()

    async def stop(self) -> bool:
        """Unregister this broker, and give up all its bundles; False if the metadata store does not answer.

        What is not given up goes with the session.
        """
        self._lookup.stopping = True
        for task in (self._reclaiming, *self._following.values()):
            if task is not None:
                task.cancel()
        answers = await self._unregistered()
        limit = asyncio.Semaphore(UNLOADED_AT_ONCE)

        async def unload(bundle: Bundle) -> None:
            nonlocal answers
            async with limit:
                try:
                    if answers:
                        await self.unload(bundle)
                except MledgerError as error:
                    answers = answers and not isinstance(error, StoreUnavailable)
                    log.warning("bundle_not_released", bundle=bundle, error=error)

        await asyncio.gather(*map(unload, self._lookup.owned))
        return answers

    async def _unregistered(self) -> bool:
        """Unregister this broker; False if the metadata store does not answer."""
        try:
            await self._lookup.store.wait_for_session(SessionState.CONNECTED, STORE_GONE_S)
            await self._lookup.roster.unregister()
        except (TimeoutError, MetadataError) as error:
            log.warning("broker_not_unregistered", error=error or "there is no connection to the metadata store")
            return not isinstance(error, TimeoutError | StoreUnavailable)
        return True

    def session_renewed(self) -> None:
        """Take back what this broker owned in its last session, which ended; what others own meanwhile is lost."""
        self._sessions_ended += 1
        if self._lookup.stopping or (self._reclaiming is not None and not self._reclaiming.done()):
            return
        self._reclaiming = asyncio.get_running_loop().create_task(self._reclaim())

    async def _reclaim(self) -> None:
        done = 0
        while done != self._sessions_ended:
            session = self._sessions_ended
            with OutlivedRound(partial(log_failure, log, "bundles_not_reclaimed")):
                try:
                    await self._lookup.roster.register()
                    for bundle in await self._lookup.owned.reclaim():
                        await self._topics.give_up(bundle.contains, NOWHERE, bundle.namespace)
                except StoreClosed:
                    return
                done = session
                self._lookup.roster.changed()
                continue
            await asyncio.sleep(RETRY_S)

    def _follow(self, bundle: Bundle) -> None:
        """Watch the bundle's node for as long as it is owned here."""
        before = self._following.get(bundle)
        if before is not None:
            before.cancel()
        task = self._following[bundle] = asyncio.get_running_loop().create_task(self._follow_on(bundle))
        task.add_done_callback(lambda _: self._following.get(bundle) is task and self._following.pop(bundle))

    async def _follow_on(self, bundle: Bundle) -> None:
        """Unload the bundle when its node is marked for it, and give it up when the node is removed or another's."""
        while bundle in self._lookup.owned:
            with OutlivedRound(lambda error: log_failure(log, "bundle_not_watched", error, bundle=bundle)):
                try:
                    async with self._lookup.store.watch(bundle.path) as changes:
                        while bundle in self._lookup.owned:
                            await self._look(bundle)
                            await anext(changes)
                except StoreClosed:
                    return
                continue
            await asyncio.sleep(RETRY_S)

    async def _look(self, bundle: Bundle) -> None:
        if self._reclaiming is not None:  # the node ended with the session, and is created again
            await asyncio.wait([self._reclaiming])
        (node,) = await self._lookup.store.get_many([bundle.path])
        if self._lookup.owned.is_leaving(bundle):
            return
        if node is None or bundle_owner_urls(node.data).any != self._lookup.roster.address.urls.any:
            log.warning("bundle_taken_away", bundle=bundle)
            self._lookup.owned.forget(bundle)
            await self._topics.give_up(bundle.contains, NOWHERE, bundle.namespace)
        elif is_disabled(node.data):
            await self.unload(bundle)

    async def _next_owner(self, bundle: Bundle) -> ServiceUrls:
        """Where the broker is that is to own the bundle next; NOWHERE if there is none or it cannot be told."""
        roster = self._lookup.roster
        try:
            chosen = plan_owner(await roster.reports(), {}, str(bundle), (roster.address.name,))
        except MetadataError:
            return NOWHERE
        return NOWHERE if chosen is None else chosen.urls
