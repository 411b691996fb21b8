"""Whether, and by which retention, a topic is trimmed (M10); retention is read only once there is something to trim."""

from collections.abc import Container

from mledger.admin.policies.topic_policies import PolicyReader
from mledger.config import ManagedLedgerConfig
from mledger.cursors.compaction import why_never_trimmed
from mledger.errors import RetentionUnknown
from mledger.ledgers.bundles import CLUSTERS, LIVE_BROKERS, live, of_mledger
from mledger.ledgers.retention import KEEP_ALL, RetentionInForce, RetentionOrigin, retention_in_force
from mledger.metastore.records.paths import TopicName
from mledger.metastore.store import MetadataReader

RECENT_S = 60.0  # policies read this long ago are recent enough to decide that nothing is trimmed


class TrimPolicy:
    """The trim policy of one topic, which `trim` sets.

    None: the topic is trimmed automatically, unless a Pulsar broker serves the cluster; True: even then; False: never.
    `ManagedLedger.trim` trims whatever `trim` says, by the same retention. What `why_never` names is never trimmed, and
    nothing is where brokers have a default retention that the caller has not `given` by its configuration.
    """

    def __init__(
        self,
        policies: PolicyReader,
        reader: MetadataReader,
        managed_ledger: str,
        config: ManagedLedgerConfig,
        trim: bool | None,
        *,
        given: bool,
    ) -> None:
        self._policies = policies
        self._reader = reader
        self._managed_ledger = managed_ledger
        self._config = config
        self._trim = trim
        self._given = given
        self.known = KEEP_ALL
        """The retention in force when it was last read; everything is kept before that, and while it is not known."""

    async def retention(self, max_age_s: float = 0.0) -> RetentionInForce:
        """The retention in force, read at most `max_age_s` seconds ago; PoliciesUnavailable."""
        found = await self._policies.policies(self._managed_ledger, max_age_s=max_age_s)
        self.known = retention_in_force(found, self._config)
        return self.known

    def why_never(self, cursors: Container[str]) -> str:
        """Why a topic that has these durable cursors must not be trimmed; empty if it may be."""
        return why_never_trimmed(TopicName.of_managed_ledger(self._managed_ledger), cursors)

    async def why_not(self) -> str:
        """Why nothing is trimmed automatically; empty if consumed ledgers are."""
        if self._trim is False:
            return "it was opened with trimming switched off"
        if self._trim is None and (broker := await live_broker(self._reader)):
            return f"a Pulsar broker serves this cluster ({broker}): trimming is left to it"
        try:
            await self.check_known(await self.retention(RECENT_S))
        except RetentionUnknown as error:
            return str(error)
        return ""

    async def check_known(self, retention: RetentionInForce) -> None:
        """Raise RetentionUnknown if `retention` is a default that may not be that of the brokers; all is kept then."""
        try:
            await check_retention_known(self._reader, self._managed_ledger, retention, given=self._given)
        except RetentionUnknown:
            self.known = KEEP_ALL
            raise


async def check_retention_known(
    reader: MetadataReader, managed_ledger: str, retention: RetentionInForce, *, given: bool
) -> None:
    """Raise RetentionUnknown if brokers have a default retention for the topic that is not `given`.

    Topics that no broker has ever served have no such default.
    """
    if given or retention.origin is not RetentionOrigin.DEFAULT:
        return
    clusters, brokers = await reader.children_many([CLUSTERS, LIVE_BROKERS])
    if clusters or brokers is not None:
        raise RetentionUnknown(
            f"no policy sets the retention of {TopicName.of_managed_ledger(managed_ledger)}, and the default of the "
            "cluster's brokers is not known: give their broker.conf by --config, or what it says by --set "
            "defaultRetentionTimeInMinutes=MINUTES --set defaultRetentionSizeInMB=MB (in Python, by a config)"
        )


async def live_broker(reader: MetadataReader) -> str | None:
    """The node of a live Pulsar broker of this cluster, None if there is none.

    Brokers of mledger do not count: each is an owner, which trims what it has open.
    """
    (names,) = await reader.children_many([LIVE_BROKERS])
    paths = live(names or ())
    nodes = await reader.get_many(paths)
    for path, node in zip(paths, nodes, strict=True):
        if node is not None and node.stat.ephemeral_owner and not of_mledger(node.data):
            return path
    return None
