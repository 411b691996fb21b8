"""Names for producers that gave none: unique in the cluster, as Pulsar's (`standalone-3-17`)."""

import asyncio

from mledger.metastore.store import MetadataStore

COUNTER = "/counters/producer-name"


class ProducerNames:
    """Names of cluster, a number that this broker draws from the metadata store, and a count."""

    def __init__(self, store: MetadataStore, cluster_name: str) -> None:
        self._store = store
        self._cluster_name = cluster_name
        self._lock = asyncio.Lock()
        self._prefix = ""
        self._count = 0

    async def next(self) -> str:
        """A name that no producer had before."""
        async with self._lock:
            if not self._prefix:
                path = await self._store.create(f"{COUNTER}/-", sequential=True, parents=True)
                self._prefix = f"{self._cluster_name}-{int(path.rpartition('/')[2].lstrip('-'))}"
        self._count += 1
        return f"{self._prefix}-{self._count - 1}"
