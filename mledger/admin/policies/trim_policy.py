"""Whether, and by which retention, an open topic is trimmed (M10): looked up when something could go, not before."""

from mledger.admin.policies.topic_policies import PolicyReader
from mledger.config import ManagedLedgerConfig
from mledger.ledgers.bundles import LIVE_BROKERS, live
from mledger.ledgers.retention import KEEP_ALL, RetentionInForce, retention_in_force
from mledger.metastore.store import MetadataReader

RECENT_S = 60.0  # what was read of policies that long ago is good enough to decide that nothing goes


class TrimPolicy:
    """Of one topic. `trim` None: by itself, unless a Pulsar broker serves the cluster; True: also then; False: never.

    What somebody calls `ManagedLedger.trim` for is done whatever `trim` says, and by the same retention.
    """

    def __init__(
        self,
        policies: PolicyReader,
        reader: MetadataReader,
        managed_ledger: str,
        config: ManagedLedgerConfig,
        trim: bool | None,
    ) -> None:
        self._policies = policies
        self._reader = reader
        self._managed_ledger = managed_ledger
        self._config = config
        self._trim = trim
        self.known = KEEP_ALL
        """The retention in force as it was read last; everything is kept while it was not."""

    async def retention(self, max_age_s: float = 0.0) -> RetentionInForce:
        """The retention in force, as it was at most `max_age_s` seconds ago; PoliciesUnavailable."""
        found = await self._policies.policies(self._managed_ledger, max_age_s=max_age_s)
        self.known = retention_in_force(found, self._config)
        return self.known

    async def why_not(self) -> str:
        """Why nothing goes unless somebody asks for it; empty where consumed ledgers go by themselves."""
        if self._trim:
            return ""
        if self._trim is False:
            return "it was opened to be kept as it is"
        broker = await live_broker(self._reader)
        return "" if broker is None else f"a Pulsar broker serves this cluster ({broker}): trimming is left to it"


async def live_broker(reader: MetadataReader) -> str | None:
    """The node of a Pulsar broker that is live in this cluster, None if there is none."""
    (names,) = await reader.children_many([LIVE_BROKERS])
    paths = live(names or ())
    nodes = await reader.get_many(paths)
    found = (path for path, node in zip(paths, nodes, strict=True) if node is not None and node.stat.ephemeral_owner)
    return next(found, None)
