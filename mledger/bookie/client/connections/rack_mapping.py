"""The mapping of bookies to racks in the metadata store, cached for some seconds (Q1)."""

import asyncio

from mledger.bookie.client.connections.shared_read import SharedRead
from mledger.bookie.client.plans.topology import PlacementPolicy
from mledger.metastore.cluster.racks import RACKS_PATH, RackGroups, decode_racks
from mledger.metastore.errors import RecordError, StoreUnavailable
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import MetadataReader

log = get_logger(__name__)

_CURRENT_S = 5.0  # how long a mapping counts as current


class RackMapping:
    """Pulsar's `/bookies`, at most a few seconds old."""

    def __init__(self, reader: MetadataReader, policy: PlacementPolicy) -> None:
        self._reader, self._policy = reader, policy
        self._groups: RackGroups | None = None
        self._read_at = float("-inf")
        self._reading = SharedRead(self._refresh)

    async def groups(self) -> RackGroups:
        """The groups and racks; none if the policy asks nothing of racks.

        If the mapping cannot be read, the last known one is used, or none. If the policy needs racks and no mapping is
        known, StoreUnavailable or RecordError is raised.
        """
        policy = self._policy
        if not (policy.rack_aware or policy.region_aware or policy.isolation_groups):
            return {}
        now = asyncio.get_running_loop().time()
        if self._groups is None or now - self._read_at > _CURRENT_S:
            await self._reading.get()
        return self._groups or {}

    async def _refresh(self) -> None:
        now = asyncio.get_running_loop().time()
        try:
            self._take(await self._read())
        except (StoreUnavailable, RecordError) as error:
            if self._policy.needs_racks and self._groups is None:
                raise
            log.warning("racks_unknown", path=RACKS_PATH, error=error)
        self._read_at = now

    async def _read(self) -> RackGroups:
        (node,) = await self._reader.get_many([RACKS_PATH])
        return {} if node is None else decode_racks(node.data)

    def _take(self, groups: RackGroups) -> None:
        if groups != self._groups:
            missing = sorted(self._policy.isolation_groups - groups.keys())
            if missing:
                log.warning("isolation_groups_missing", path=RACKS_PATH, groups=missing)
        self._groups = groups
