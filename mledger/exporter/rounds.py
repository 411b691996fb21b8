"""Reads round after round until it is stopped. While the store is away, the last reading stays, and ages."""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mledger.exporter.cluster_figures import ClusterFigures
from mledger.exporter.cluster_reader import ClusterReader
from mledger.exporter.paced_reader import PacedReader
from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.metastore.store import MetadataReader, SessionState

log = get_logger(__name__)

RETRY_FIRST_S = 1.0
RETRY_LAST_S = 30.0
UNEXPECTED = "unexpected"

_WORD = re.compile(r"(?<!^)(?=[A-Z])")
_ENDED = (SessionState.EXPIRED, SessionState.CLOSED)


@dataclass(frozen=True, slots=True)
class ClusterReading:
    """What a round has found; `began_s` on the loop's clock, `at_ms` since 1970."""

    figures: ClusterFigures
    began_s: float
    at_ms: int
    round_s: float
    requested: int
    """Nodes and lists of children that the round asked for."""


class ReadingRounds:
    """Reads the cluster every `interval_s`, through sessions that `open_session` opens."""

    def __init__(
        self,
        cluster: ClusterReader,
        open_session: Callable[[], Awaitable[MetadataReader]],
        rate: float,
        interval_s: float,
    ) -> None:
        self._cluster, self._open, self._rate, self._interval_s = cluster, open_session, rate, interval_s
        self._reader: PacedReader | None = None
        self._began_s = asyncio.get_running_loop().time()
        self.reading: ClusterReading | None = None
        """The last complete one."""
        self.completed = 0
        self.failures: Counter[str] = Counter()
        """Rounds that failed, by kind of error."""
        self.error = ""
        """Why the last round failed; empty if it was complete."""

    @property
    def age_s(self) -> float:
        """Seconds since the last complete reading began; before the first one, since the process has read."""
        began_s = self._began_s if self.reading is None else self.reading.began_s
        return asyncio.get_running_loop().time() - began_s

    @property
    def session(self) -> SessionState:
        """The state of the session with the metadata store."""
        return SessionState.CLOSED if self._reader is None else self._reader.session_state

    async def run(self) -> None:
        """Read until cancelled."""
        failed = 0
        try:
            while True:
                began_s = asyncio.get_running_loop().time()
                failed = 0 if await self._round() else failed + 1
                took_s = asyncio.get_running_loop().time() - began_s
                await asyncio.sleep(plan_pause(self._interval_s, took_s, failed))
        finally:
            await self._end_session()

    async def _round(self) -> bool:
        """Read once; whether the reading is complete."""
        try:
            self.reading = await self._read()
        except (MledgerError, OSError, TimeoutError) as error:
            self._failed(error, kind_of(error))
        except Exception as error:  # the next round may not meet it
            log.exception("round_failed_unexpectedly")
            self._failed(error, UNEXPECTED)
        else:
            self.completed += 1
            self.error = ""
            log.debug("round_complete", seconds=self.reading.round_s, requested=self.reading.requested)
            return True
        await self._end_session()
        return False

    async def _read(self) -> ClusterReading:
        loop = asyncio.get_running_loop()
        began_s, at_ms = loop.time(), wall_clock_ms()
        if self._reader is not None and self._reader.session_state in _ENDED:
            await self._end_session()
        if self._reader is None:
            self._reader = PacedReader(await self._open(), self._rate)
        before = self._reader.requested
        figures = await self._cluster.read(self._reader)
        return ClusterReading(figures, began_s, at_ms, loop.time() - began_s, self._reader.requested - before)

    def _failed(self, error: Exception, kind: str) -> None:
        self.failures[kind] += 1
        if str(error) != self.error:  # once for each outage, not each round
            log.warning("round_failed", kind=kind, error=error)
        self.error = str(error) or kind

    async def _end_session(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()


def plan_pause(interval_s: float, took_s: float, failed: int) -> float:
    """Seconds until the next round begins, after one that took `took_s`; `failed` rounds have failed since."""
    if failed:
        return min(interval_s, RETRY_LAST_S, RETRY_FIRST_S * (1 << min(failed - 1, 10)))
    return max(0.0, interval_s - took_s)


def kind_of(error: Exception) -> str:
    """The kind of an error as a label: its class, in lower case with underscores."""
    return _WORD.sub("_", type(error).__name__).lower()
