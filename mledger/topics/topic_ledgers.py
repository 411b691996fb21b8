"""An open topic's ledgers: the recorded list, the current ledger's live end, all changes (M4, M8)."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mledger.bookie.client.ledgers.writer import LedgerWriter
from mledger.events import CurrentLedgerClosed, Event, LedgerCreated
from mledger.ledgers.entries.open_ledger import OpenLedger
from mledger.ledgers.ledger_factory import LedgerFactory
from mledger.ledgers.ledger_list import LedgerEnd, LedgerList, plan_rollover
from mledger.ledgers.ownership import Ownership
from mledger.ledgers.topic_record import RecordChange, TopicRecord
from mledger.metastore.errors import MledgerError, SessionExpired
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import ManagedLedgerInfo
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.topics.appender import EndedLedger
from mledger.topics.state import topic_terminated

log = get_logger(__name__)

NOTHING = LedgerEnd(0, 0)


class ListListener(Struct, frozen=True):
    """Callbacks: an event, new entries, perhaps some that failed before, a new current ledger, one to delete."""

    emit: Callable[[Event], None]
    arrived: Callable[[], None]
    found: Callable[[], None]
    installed: Callable[[], None]
    delete_later: Callable[[int], None]


class TopicLedgers:
    """The topic's list of ledgers at its owner; `Appender` and `Trimmer` change the list through it."""

    def __init__(
        self,
        record: TopicRecord,
        factory: LedgerFactory,
        ownership: Ownership,
        ledgers: LedgerList,
        listener: ListListener,
        now_ms: Callable[[], int],
    ) -> None:
        self._record = record
        self._factory = factory
        self._ownership = ownership
        self._listener = listener
        self._now_ms = now_ms
        self.list = ledgers
        self.entries_added = 0
        """How many entries were acknowledged since the topic was opened."""
        self.own_properties: Callable[[], Mapping[str, str]] = dict
        """Properties of the topic that each new ledger's listing writes too: what else only trimmed entries know."""
        record.on_settled(self._take_over)

    async def verify_owner(self, *, fenced: bool = False) -> None:
        """Raise ManagedLedgerFenced if there is another owner; writes nothing (M7).

        `fenced`: another client fenced, closed or deleted the current ledger. If a broker serves
        the topic, that broker is loading it, and this owner yields (M9).
        """
        try:
            other = await self._ownership.lost_to() or (await self._ownership.broker() if fenced else None)
            if other is not None:
                raise self._record.fence(f"another owner has it: {other}")
            await self._record.verify()
        except SessionExpired:
            raise self._record.end_session() from None

    def confirmed(self, ledger: OpenLedger) -> None:
        """Note that more entries of the current ledger are acknowledged."""
        if ledger.ledger_id == self.list.current:
            self.entries_added += ledger.confirmed - self.list.entries(ledger.ledger_id)
            self.list.set_live(ledger.confirmed, ledger.confirmed_size)
            self._listener.arrived()
            if ledger.failure is not None:  # its end is known now
                self._listener.found()

    async def install(self, ended: EndedLedger, writer: LedgerWriter) -> None:
        """List `writer`'s ledger as current and record the end of `ended`, in one update (M4)."""
        dropped: list[int] = []

        def plan(info: ManagedLedgerInfo) -> RecordChange:
            if info.terminated is not None:  # by an update of unknown outcome
                raise topic_terminated(self._record.name)
            # an earlier update of unknown outcome may have listed an unused ledger behind the one
            # that ended
            is_last = ended.ledger_id == info.ledgers[-1].ledger_id
            planned = plan_rollover(info, ended.end if is_last else NOTHING, self._now_ms(), writer.ledger_id)
            dropped[:] = [ledger.ledger_id for ledger in planned.dropped]
            return RecordChange(
                self.with_own_properties(planned.info),
                (self._factory.listed(writer.ledger_id),),
                tuple(map(self._factory.deletion, dropped)),
            )

        await self._record.update(plan)
        self._take_over()
        if ended.end.entries:
            self._listener.emit(
                CurrentLedgerClosed(self._record.name, ended.ledger_id, ended.end.entries, ended.end.size)
            )
        self._listener.emit(LedgerCreated(self._record.name, writer.ledger_id))
        for ledger_id in dropped:
            self._listener.delete_later(ledger_id)
        self._listener.installed()

    def with_own_properties(self, info: ManagedLedgerInfo) -> ManagedLedgerInfo:
        """The record with `own_properties` as they are now."""
        own = self.own_properties()
        return replace(info, properties=tuple({**dict(info.properties), **own}.items())) if own else info

    def switch_failed(self, reason: MledgerError) -> None:
        """Log that the ledger switch failed; the next append tries again."""
        log.warning("ledger_switch_failed", topic=self._record.name, error=reason)

    async def drop(self, gone: Sequence[int]) -> None:
        """Remove ledgers from the list and record each for deletion, in one update (R10)."""
        going = frozenset(gone)

        def plan(info: ManagedLedgerInfo) -> RecordChange:
            # an earlier update of unknown outcome may have removed and recorded some
            listed = [ledger.ledger_id for ledger in info.ledgers if ledger.ledger_id in going]
            deletions = tuple(map(self._factory.deletion, listed))
            return RecordChange(_without(info, going), deletions=deletions)

        self._factory.in_hand.update(gone)  # a concurrent replay must not take their deletion records for leftovers
        try:
            await self._record.update(plan)
        finally:
            self._factory.in_hand.difference_update(gone)
        self._take_over()

    async def terminate(self, ended: EndedLedger) -> Position:
        """Record that the topic ends at its last entry, where `ended`, its last ledger, is closed; returns that (M8).

        Without an entry that is before the first of the last ledger. Readers of Pulsar's clients that are told of a
        position without an entry take the topic for empty, and read nothing of it.
        """

        def plan(info: ManagedLedgerInfo) -> RecordChange:
            if info.terminated is not None:  # by an earlier update of unknown outcome
                return RecordChange(info)
            last = info.ledgers[-1].ledger_id
            entries = ended.end.entries if ended.ledger_id == last else 0
            if entries:
                info = plan_rollover(info, ended.end, self._now_ms()).info
            return RecordChange(replace(info, terminated=LedgerList(info.ledgers).last_confirmed))

        await self._record.check_same()
        self._factory.on_step("terminate")
        info = await self._record.update(plan)
        self._factory.on_step("terminated")
        self._take_over()
        assert info.terminated is not None
        return info.terminated

    def _take_over(self) -> None:
        """Rebuild the list from the record; an open last ledger is current and keeps its live counts."""
        info = self._record.info
        if info.terminated is not None or not info.ledgers or info.ledgers[-1].timestamp:
            self.list = LedgerList(info.ledgers, terminated=info.terminated)
            return
        current = info.ledgers[-1].ledger_id
        self.list = LedgerList(
            info.ledgers,
            current=current,
            live_entries=self.list.entries(current),
            live_size=self.list.size(current),
        )


def _without(info: ManagedLedgerInfo, gone: frozenset[int]) -> ManagedLedgerInfo:
    return replace(info, ledgers=tuple(ledger for ledger in info.ledgers if ledger.ledger_id not in gone))
