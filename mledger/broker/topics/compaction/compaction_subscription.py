"""The subscription of compaction: where it stands and the compacted ledger that it names change together only."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mledger.broker.protocol.requests import AckRun, CumulativeAck
from mledger.broker.refusals import BrokerRefusal
from mledger.broker.topics.subscriptions.ack_answers import refuse_acks
from mledger.broker.topics.subscriptions.consumer import Consumer
from mledger.broker.topics.subscriptions.subscription import BrokerSubscription
from mledger.cursors.cursor import Cursor, CursorStatus
from mledger.errors import CursorNotFound, ManagedLedgerClosed, ManagedLedgerFenced
from mledger.ledgers.background import Background
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.values import COMPACTED_LEDGER
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.pb import PulsarApi_pb2 as pb

if TYPE_CHECKING:
    from mledger.broker.topics.broker_topic import BrokerTopic

log = get_logger(__name__)

RETRY_S = 10.0
_ENDED = (ManagedLedgerFenced, ManagedLedgerClosed, CursorNotFound)


class CompactionSubscription(BrokerSubscription):
    """Takes of compaction that it has come to a position, and in which ledger it left what it kept.

    The ledger of the compaction before is deleted once that is durable.
    """

    def __init__(self, topic: "BrokerTopic", cursor: Cursor) -> None:
        super().__init__(topic, cursor)
        self._deletions = Background(str(topic.name))

    def acknowledge(self, consumer: Consumer, run: AckRun) -> None:
        """Refuse it: single entries say nothing about what compaction has taken in."""
        self._refuse(consumer, run.request_ids)

    def acknowledge_cumulative(self, consumer: Consumer, ack: CumulativeAck) -> None:
        """Take over a compacted ledger; refuse an acknowledgement that names none of this topic.

        Any client may subscribe as compaction does, and what it names replaces the ledger before, which is deleted.
        """
        if COMPACTED_LEDGER not in ack.properties:
            self._refuse(consumer, ack.request_ids)
            return
        what = f"end of compaction in ledger {ack.properties[COMPACTED_LEDGER]}"
        self._deletions.spawn(self._take_over(consumer, ack), what, endless=True)

    async def _take_over(self, consumer: Consumer, ack: CumulativeAck) -> None:
        try:
            own = await self.topic.attached.is_compacted(ack.properties[COMPACTED_LEDGER])
        except MledgerError as error:
            self._refuse_acks(consumer, ack.request_ids, error)
            return
        if not own:
            self._refuse(consumer, ack.request_ids)
            return
        former = self.cursor.properties.get(COMPACTED_LEDGER)
        super().acknowledge_cumulative(consumer, ack)
        if former is not None and self.cursor.properties.get(COMPACTED_LEDGER) != former:
            await self._delete(former)

    def _refuse(self, consumer: Consumer, request_ids: Iterable[int]) -> None:
        why = f"{self.name} of {self.topic.name} takes only cumulative acknowledgements with its {COMPACTED_LEDGER}"
        log.warning("ack_refused", topic=self.topic.name, subscription=self.name, why=why)
        refuse_acks(consumer.connection, consumer.id, request_ids, BrokerRefusal(pb.NotAllowedError, why))

    async def _delete(self, former: int) -> None:
        """Delete a compacted ledger once another one's number is durable; if this owner ends before, the next one does.

        That one finds the pending record, and keeps the ledger that the recovered cursor names (C12).
        """
        ledgers = self.topic.managed_ledger.compacted_ledgers
        while True:
            try:
                if not await self.topic.attached.is_compacted(former):
                    return
                await ledgers.doubt([former])
                await self.cursor.flush()
                await ledgers.settle(former, named=self.cursor.properties.get(COMPACTED_LEDGER) == former)
            except _ENDED:
                return
            except MledgerError as error:
                log.warning("compacted_ledger_not_deleted", topic=self.topic.name, ledger=former, error=error)
                await asyncio.sleep(RETRY_S)
                if self.cursor.status in (CursorStatus.CLOSED, CursorStatus.FENCED):
                    return
            else:
                return
