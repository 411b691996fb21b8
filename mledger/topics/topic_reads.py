"""Reads of an open topic by position."""

from collections.abc import Iterable

from mledger.config import ManagedLedgerConfig
from mledger.errors import InvalidPosition
from mledger.ledgers.entries.entry import Entry
from mledger.ledgers.entries.entry_reader import EntryReader
from mledger.ledgers.entries.position_reads import PositionReader, PositionsFound
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.position import Position
from mledger.topics.topic_attributes import TopicAttributes


class TopicReads(TopicAttributes):
    """The reads of a topic that no cursor determines."""

    config: ManagedLedgerConfig
    reader: EntryReader
    _stopped: MledgerError | None

    async def read(
        self, first: Position, max_entries: int, max_bytes: int | None = None, last: Position | None = None
    ) -> list[Entry]:
        """Entries from `first` up to `last` or the last acknowledged one; at least one if there is one.

        Returns at most `max_entries`, fewer once `max_bytes` of payload are reached. Missing and
        empty ledgers are skipped (C11).
        """
        self._check_readable()
        return await self.reader.read_on(lambda: self.ledger_list, first, max_entries, max_bytes, last)

    async def read_entry(self, position: Position) -> Entry:
        """The entry at `position`.

        Raises:
            InvalidPosition: the topic has no entry there.
        """
        self._check_readable()
        if not self.ledger_list.exists(position):
            raise InvalidPosition(f"{self.name} has no entry {position}")
        return (await self.reader.read(position.ledger_id, position.entry_id, position.entry_id, None))[0]

    async def read_positions(self, positions: Iterable[Position]) -> PositionsFound:
        """The entries at `positions`, in their order, as few requests; what was trimmed is missing (D3).

        With autoSkipNonRecoverableData lost entries are missing too.

        Raises:
            NoSuchLedger, NoSuchEntry: a listed ledger or an entry of one is lost.
            LedgerOffloaded: a ledger is in tiered storage only.
        """
        self._check_readable()
        skip_lost = self.config.auto_skip_non_recoverable_data
        return await PositionReader(self.reader, lambda: self.ledger_list, skip_lost=skip_lost).read(positions)

    def _check_readable(self) -> None:
        if self._stopped is not None:
            raise self._stopped
