"""Services shared by the topics that one process owns: store, clients, timer, policies, counters."""

from collections.abc import Callable

from mledger.admin.policies.topic_policies import PolicyReader
from mledger.bookie.client.client import BookKeeper
from mledger.config import EntryCacheConfig, ManagedLedgerConfig
from mledger.counters import OwnerCounters
from mledger.cursors.persistence.write_turns import WriteTurns
from mledger.ledgers.entries.entry_cache import EntryCache
from mledger.ledgers.orphans.orphan_cleanup import OrphanCleanup
from mledger.ledgers.orphans.pending_records import ensure_folders
from mledger.ledgers.ownership import OwnerNodes
from mledger.metastore.store import MetadataStore
from mledger.topics.services.broker_watch import BrokerWatch
from mledger.topics.services.maintenance import Maintenance
from mledger.topics.services.policy_watch import FollowedPolicies, PolicyWatch


class Services:
    """Created once per cluster, whose topics have `config` unless they are opened with another.

    Without `cache` no entries are cached. With `policy_cluster`, the name of the cluster, topics follow
    the policies of Pulsar.
    """

    def __init__(
        self,
        store: MetadataStore,
        bookkeeper: BookKeeper,
        now_ms: Callable[[], int],
        config: ManagedLedgerConfig,
        cache: EntryCacheConfig | None = None,
        policy_cluster: str | None = None,
    ) -> None:
        self.store = store
        self.bookkeeper = bookkeeper
        self.now_ms = now_ms
        self.maintenance = Maintenance(now_ms)
        self.brokers = BrokerWatch(store)
        self.owner_nodes = OwnerNodes()
        self.replayer = OrphanCleanup(bookkeeper, store)
        self.policies = PolicyReader(
            store, bookkeeper, config.password, policy_cluster or "", topic_level=config.topic_level_policies
        )
        self.policy_watch = None if policy_cluster is None else PolicyWatch(store, self.policies)
        self.followed_policies = FollowedPolicies(self.policies, self.policy_watch)
        self.counters = OwnerCounters()
        self.turns = WriteTurns()
        self.cache = EntryCache(cache) if cache is not None and cache.size else None
        self._prepared = False

    def stop(self) -> None:
        """Stop what runs by itself: alarms, watches, the eviction of entries."""
        self.maintenance.stop()
        self.brokers.stop()
        self.owner_nodes.stop()
        if self.policy_watch is not None:
            self.policy_watch.stop()
        if self.cache is not None:
            self.cache.stop()

    async def prepare(self) -> None:
        """Create, once, the folders for the records of ledgers and owners."""
        if not self._prepared:
            await ensure_folders(self.store)
            self._prepared = True
