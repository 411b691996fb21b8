"""The mapping of bookies to racks in the metadata store, cached for some seconds (Q1)."""

import asyncio

from mledger.bookie.client.connections.shared_read import SharedRead
from mledger.bookie.client.plans.topology import IsolationGroups, PlacementPolicy
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
        self._error: StoreUnavailable | RecordError | None = None
        self._missing: set[str] = set()  # groups that were missed in this mapping
        self._read_at = float("-inf")
        self._reading = SharedRead(self._refresh)

    async def groups(self, isolation: IsolationGroups | None = None) -> RackGroups:
        """The groups and racks; none if neither the policy nor `isolation` asks anything of them.

        If the mapping cannot be read, the last known one is used, or none. If no mapping is known, and the policy
        enforces racks or `isolation` names groups, StoreUnavailable or RecordError is raised.
        """
        policy, isolated = self._policy, isolation is not None and not isolation.is_any
        if not (policy.rack_aware or policy.region_aware or isolated):
            return {}
        now = asyncio.get_running_loop().time()
        if self._groups is None or now - self._read_at > _CURRENT_S:
            await self._reading.get()
        if self._groups is None and self._error is not None and (policy.enforce_min_racks or isolated):
            raise self._error
        if isolation is not None and isolated:
            self._warn(isolation)
        return self._groups or {}

    async def _refresh(self) -> None:
        now = asyncio.get_running_loop().time()
        try:
            self._take(await self._read())
        except (StoreUnavailable, RecordError) as error:
            self._error = error
            log.warning("racks_unknown", path=RACKS_PATH, error=error)
        self._read_at = now

    async def _read(self) -> RackGroups:
        (node,) = await self._reader.get_many([RACKS_PATH])
        return {} if node is None else decode_racks(node.data)

    def _take(self, groups: RackGroups) -> None:
        if groups != self._groups:
            self._missing.clear()
        self._groups = groups

    def _warn(self, isolation: IsolationGroups) -> None:
        missing = (isolation.primary | isolation.secondary) - (self._groups or {}).keys() - self._missing
        if missing:
            self._missing |= missing
            log.warning("isolation_groups_missing", path=RACKS_PATH, groups=sorted(missing))
