"""A metadata store that outlives its session, as `RenewedReader` does.

- A write in progress raises StoreUnavailable: it may have been carried out; read back, as after a lost connection (M7).
  Once the old session has ended, the server refuses what it sends.
- Ephemeral nodes end with the session; listeners are told, so that they can create them again.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from mledger.metastore.errors import StoreClosed, StoreUnavailable
from mledger.metastore.renewed_reader import SESSION_ENDED, RenewedReader
from mledger.metastore.store import ANY_VERSION, MetadataStore, Operation, Result

T = TypeVar("T")


class RenewedStore(RenewedReader[MetadataStore], MetadataStore):
    """Uses `store`, and after its session has ended what `reopen` returns; requests wait at most `timeout` seconds."""

    @property
    def session_id(self) -> int:
        """What `Stat.ephemeral_owner` holds for ephemeral nodes of the current session."""
        return self._store.session_id

    def owner_at(self, path: str) -> int:
        """The current session's owner id for a node at `path`, as `MetadataStore.owner_at`."""
        return self._store.owner_at(path)

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False, parents: bool = False
    ) -> str:
        """Create a node and return its path, as `MetadataStore.create`."""
        return await self._write(
            lambda store: store.create(path, data, ephemeral=ephemeral, sequential=sequential, parents=parents)
        )

    async def put(self, path: str, data: bytes, version: int) -> int:
        """Set the data if the node is at `version`; the new version."""
        return await self._write(lambda store: store.put(path, data, version))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete the node if it is at `version`."""
        await self._write(lambda store: store.delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Carry out all operations or none."""
        return await self._write(lambda store: store.multi(operations))

    async def _write(self, ask: Callable[[MetadataStore], Awaitable[T]]) -> T:
        store = await self._live()
        try:
            return await ask(store)
        except SESSION_ENDED as error:
            if self._closed and isinstance(error, StoreClosed):
                raise
            self._renew(store)
            raise StoreUnavailable(
                f"the session with {self.url} ended during a write and another is being opened; whether it was carried "
                "out is not known: read back",
                error.path,
            ) from error
