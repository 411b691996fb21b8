"""The owner of topics in a test, restarted as after a crash."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

import mledger


class Owner:
    """Opens topics as their owner, in the running loop; a context that closes them cleanly."""

    def __init__(self, opening: Callable[[], AbstractAsyncContextManager[mledger.Cluster]]) -> None:
        """Use `RunningCluster.owner`."""
        self._opening = opening
        self._topics: list[mledger.ManagedLedger] = []
        self._context: AbstractAsyncContextManager[mledger.Cluster]
        self._cluster: mledger.Cluster

    async def __aenter__(self) -> Owner:
        self._context = self._opening()
        self._cluster = await self._context.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._context.__aexit__(kind, error, trace)

    @property
    def cluster(self) -> mledger.Cluster:
        """The cluster as it is open at present."""
        return self._cluster

    async def open_topic(self, name: str, *, create: bool = True, **options: Any) -> mledger.ManagedLedger:
        """Open the topic, made where there is none; `options` and errors are those of `mledger.Cluster.open_topic`."""
        topic = await self._cluster.open_topic(name, create=create, **options)
        self._topics.append(topic)
        return topic

    async def restart(self) -> None:
        """Leave everything as a crash would, nothing flushed and nothing closed, and start anew with a new session.

        Topics that were open are of no use any more: open them again, which recovers them.
        """
        for topic in self._topics:
            await topic.abandon()
        self._topics.clear()
        await self._context.__aexit__(None, None, None)
        await self.__aenter__()
