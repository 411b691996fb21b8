"""The live brokers of a cluster: this one's node among the others'.

A broker is live as long as its node, which ends with its session. The node has the broker's load, by which Pulsar's
load managers and tools compare brokers.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from mledger.broker.lookup.broker_records import (
    BrokerAddress,
    BrokerLoad,
    BrokerReport,
    decode_report,
    encode_report,
    plan_report,
    report_content,
)
from mledger.broker.periodic_check import PeriodicCheck
from mledger.broker.settings import BrokerSettings
from mledger.ledgers.bundles import LIVE_BROKERS, live
from mledger.metastore.errors import BadVersion, MetadataError, NodeExists, NodeNotFound
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.times import steady_ms, wall_clock_ms
from mledger.metastore.store import ANY_VERSION, Create, Delete, MetadataStore

log = get_logger(__name__)

ATTEMPTS = 5


def report_check_s(settings: BrokerSettings) -> float:
    """How often the load is looked at: rates are those of the last sample, and it takes all topics to add them up."""
    return max(settings.report_check_s, settings.rates_interval_s)


class BrokerRoster:
    """Registers the broker at `address`, and reads what all live brokers report.

    `load` returns what this broker has to do now. By its `check` it is reported again when it has changed.
    """

    def __init__(
        self, store: MetadataStore, address: BrokerAddress, load: Callable[[], BrokerLoad], settings: BrokerSettings
    ) -> None:
        self.address = address
        self.check = PeriodicCheck("load report", lambda: report_check_s(settings), self._look)
        self._store = store
        self._load = load
        self._settings = settings
        self._reported, self._reported_ms = BrokerLoad(), steady_ms()
        self._path = f"{LIVE_BROKERS}/{address.name}"
        self._started_ms = wall_clock_ms()
        self._registered = False
        self._reporting: asyncio.Task[None] | None = None
        self._changed = False

    async def register(self) -> None:
        """Create this broker's node, replacing that of a process which had the same address before.

        Raises:
            MetadataError: it cannot be created.
        """
        load = self._load()
        for _ in range(ATTEMPTS):
            try:
                await self._store.create(self._path, self._content(load), ephemeral=True, parents=True)
            except NodeExists:
                with contextlib.suppress(NodeNotFound, NodeExists, BadVersion):
                    await self._replace(load)
                    break
            else:
                break
        else:
            raise NodeExists(f"{self._path} keeps changing: does another broker announce the same address?", self._path)
        self._registered = True
        self._written(load)

    async def unregister(self) -> None:
        """Remove the node: nobody assigns bundles to this broker any more."""
        self._registered = False
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.wait([self._reporting])
        with contextlib.suppress(NodeNotFound):
            await self._store.delete(self._path, ANY_VERSION)

    async def reports(self) -> list[BrokerReport]:
        """What the live brokers said last, this one's among them if it is registered."""
        (names,) = await self._store.children_many([LIVE_BROKERS])
        nodes = await self._store.get_many(live(names or ()))
        found = [
            decode_report(name, node.data)
            for name, node in zip(names or (), nodes, strict=True)
            if node is not None and node.stat.ephemeral_owner
        ]
        return [each for each in found if each is not None]

    async def _look(self, _: float) -> None:
        late = steady_ms() - self._reported_ms >= 1000 * self._settings.longest_report_s
        if late or plan_report(self._reported, self._load(), self._settings.report_threshold_percent):
            self.changed()

    def changed(self) -> None:
        """Report this broker's load again; changes during a report are one more."""
        self._changed = True
        if self._registered and (self._reporting is None or self._reporting.done()):
            self._reporting = asyncio.get_running_loop().create_task(self._report())

    async def _report(self) -> None:
        while self._changed:
            self._changed = False
            load = self._load()
            try:
                await self._store.put(self._path, self._content(load), ANY_VERSION)
            except NodeNotFound:  # its session has ended: the next one registers it
                return
            except MetadataError as error:
                log.warning("load_not_reported", path=self._path, error=error)
                return
            self._written(load)

    async def _replace(self, load: BrokerLoad) -> None:
        node, content = await self._store.get(self._path), self._content(load)
        if node.stat.ephemeral_owner == self._store.session_id:
            await self._store.put(self._path, content, node.version)
            return
        await self._store.multi([Delete(self._path, node.version), Create(self._path, content, ephemeral=True)])

    def _written(self, load: BrokerLoad) -> None:
        self._reported, self._reported_ms = load, steady_ms()

    def report(self) -> dict[str, Any]:
        """What this broker has to do now, in Pulsar's JSON."""
        return self._report_of(self._load())

    def _content(self, load: BrokerLoad) -> bytes:
        return encode_report(self._report_of(load))

    def _report_of(self, load: BrokerLoad) -> dict[str, Any]:
        return report_content(
            self.address,
            load,
            started_ms=self._started_ms,
            now_ms=wall_clock_ms(),
            persistent=self._settings.persistent_topics,
            nonpersistent=self._settings.nonpersistent_topics,
        )
