"""Compaction of one topic: when it is due, one run at a time, and how the last one ended (C12)."""

import asyncio
import enum
from time import perf_counter
from typing import TYPE_CHECKING

from mledger.broker.refusals import BrokerRefusal
from mledger.broker.topics.compaction.compaction_counts import CompactionCounts, CompactionWork
from mledger.broker.topics.compaction.compactor import Compactor
from mledger.cursors.compaction import COMPACTION, is_always_compacted
from mledger.ledgers.background import Background
from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.pb import PulsarApi_pb2 as pb

if TYPE_CHECKING:
    from mledger.broker.topics.broker_topic import BrokerTopic

log = get_logger(__name__)


class CompactionStatus(enum.Enum):
    """How far the compaction of a topic is, in Pulsar's words."""

    NOT_RUN = "NOT_RUN"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"


class TopicCompaction:
    """Compacts one open topic."""

    def __init__(self, topic: "BrokerTopic") -> None:
        self._topic = topic
        self._background = Background(str(topic.name))
        self._compactor = Compactor(topic, self._background)
        self._running: asyncio.Task[None] | None = None
        self.status = CompactionStatus.NOT_RUN
        self.last_error = ""
        self.counts = CompactionCounts()

    @property
    def backlog_bytes(self) -> int:
        """How much was published since the last compaction, estimated."""
        managed_ledger = self._topic.managed_ledger
        cursor = managed_ledger.open_cursors.get(COMPACTION)
        if cursor is not None:
            return managed_ledger.ledger_list.size_above(cursor.mark_delete)
        if COMPACTION in managed_ledger.cursors:  # not recovered yet
            return 0
        return managed_ledger.backlog_quotas.size if managed_ledger.cursors else managed_ledger.total_size

    def start(self) -> None:
        """Compact the topic in the background.

        Raises:
            BrokerRefusal: a compaction is running, or the topic is closed here.
        """
        self._topic.check_serves()
        if self._running is not None:
            raise BrokerRefusal(pb.ConsumerBusy, "Compaction already in progress")
        self.status, self.last_error = CompactionStatus.RUNNING, ""
        self._running = self._background.spawn(self._run(), "compaction", endless=True)

    def start_if_idle(self) -> None:
        """Compact the topic in the background unless that is under way. Raises as `start`."""
        if self._running is None:
            self.start()

    async def start_if_due(self) -> None:
        """Compact if more was published since the last time than the policies or settings allow.

        A topic that is to be compacted gets the cursor at once: nothing is trimmed before it is compacted. One that
        is always compacted needs no threshold; if its compacted ledger is gone, only `start` begins anew: what the
        ledger had are policies, and until somebody has looked at that, nothing counts as known of them.

        Raises:
            MledgerError: the cursor cannot be created, or the compacted ledger cannot be looked for.
            BrokerRefusal: as of `start`.
        """
        threshold = self._topic.settings.compaction_threshold_bytes
        always = threshold <= 0 and is_always_compacted(self._topic.name)
        if (threshold <= 0 and not always) or self._running is not None or self._topic.ended:
            return
        if COMPACTION not in self._topic.managed_ledger.cursors:
            await self._topic.managed_ledger.open_cursor(COMPACTION)
        if self.backlog_bytes > max(threshold, 0) and not (always and await self._topic.compacted.is_gone()):
            self.start_if_idle()

    def stop(self) -> None:
        """The topic is served here no more."""
        if self._running is not None:
            self._running.cancel()
        self._compactor.stop()

    async def _run(self) -> None:
        work, began_s = CompactionWork(), perf_counter()
        try:
            await self._compactor.compact(work)
        except MledgerError as error:
            log.warning("compaction_failed", topic=self._topic.name, error=error)
            self.status, self.last_error = CompactionStatus.ERROR, str(error)
        except BaseException as error:
            self.status, self.last_error = CompactionStatus.ERROR, repr(error)
            raise
        else:
            self.status = CompactionStatus.SUCCESS
        finally:
            succeeded = self.status is CompactionStatus.SUCCESS
            self.counts.ended(work, perf_counter() - began_s, succeeded=succeeded)
            self._running = None
