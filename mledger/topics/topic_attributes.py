"""Attributes of an open topic that come from its record and its list of ledgers."""

from mledger.ledgers.ledger_list import LedgerList
from mledger.ledgers.topic_record import TopicRecord
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo
from mledger.topics.topic_ledgers import TopicLedgers


class TopicAttributes:
    """The public properties of a topic that depend only on its record and its list of ledgers."""

    _record: TopicRecord
    _ledgers: TopicLedgers

    @property
    def name(self) -> str:
        """The managed ledger's name, `tenant/namespace/persistent/topic`."""
        return self._record.name

    @property
    def info(self) -> ManagedLedgerInfo:
        """The topic's record as last written."""
        return self._record.info

    @property
    def metadata_version(self) -> int:
        """The version of its record as last written."""
        return self._record.version

    @property
    def terminated(self) -> Position | None:
        """Where it was terminated, None if it was not (M8)."""
        return self._record.info.terminated

    @property
    def last_confirmed(self) -> Position:
        """The last acknowledged entry; without entries, the position before the first."""
        if self.terminated is not None and not self.ledger_list.total_entries:
            return self.terminated
        return self.ledger_list.last_confirmed

    @property
    def ledger_list(self) -> LedgerList:
        """Its ledgers, for looking up positions; a new object after each change of the list."""
        return self._ledgers.list

    @property
    def ledgers(self) -> tuple[LedgerInfo, ...]:
        """Its ledgers in order; the current one has the counts of its acknowledged entries."""
        return self.ledger_list.live_infos

    @property
    def number_of_entries(self) -> int:
        """Acknowledged entries in all ledgers."""
        return self.ledger_list.total_entries

    @property
    def entries_added(self) -> int:
        """Entries acknowledged since the topic was opened."""
        return self._ledgers.entries_added

    @property
    def total_size(self) -> int:
        """Payload bytes of all ledgers."""
        return self.ledger_list.total_size

    @property
    def properties(self) -> dict[str, str]:
        """The topic's properties."""
        return dict(self._record.info.properties)

    async def verify_owner(self) -> None:
        """Raise ManagedLedgerFenced if another owner has written the topic's record (M7); writes nothing."""
        await self._record.verify()
