"""The owner of topics in a test, which can restart as after a crash."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

import mledger


class Owner:
    """Opens topics as their owner, in the running loop; its context closes them cleanly."""

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
        """The currently open cluster."""
        return self._cluster

    async def open_topic(self, name: str, *, create: bool = True, **options: Any) -> mledger.ManagedLedger:
        """Open the topic, creating it by default; `options` and errors are those of `mledger.Cluster.open_topic`."""
        topic = await self._cluster.open_topic(name, create=create, **options)
        self._topics.append(topic)
        return topic

    async def restart(self) -> None:
        """Leave everything as a crash would, without a flush or close, and start again with a new session.

        Topics that were open can no longer be used: open them again, which recovers them.
        """
        for topic in self._topics:
            await topic.abandon()
        self._topics.clear()
        await self._context.__aexit__(None, None, None)
        await self.__aenter__()
