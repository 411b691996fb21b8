"""The broker's metadata of a topic's entries: puts it before them, and numbers messages on after a restart.

The number of the last message is in its entry. Before ledgers are trimmed it is also in the topic's property `index`,
as in Pulsar: it is written whenever a ledger is full, and when the topic is opened.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from mledger.broker.protocol.broker_metadata import BrokerMetadataFields, BrokerMetadataWriter
from mledger.broker.protocol.requests import SendRun
from mledger.ledgers.background import Background
from mledger.ledgers.entries.open_ledger import Appended
from mledger.messages.pulsar_message import decode_entry
from mledger.messages.pulsar_producer import INDEX_PROPERTY, next_index
from mledger.topics.managed_ledger import ManagedLedger

SetProperty = Callable[[str, str], Coroutine[Any, Any, None]]


class TopicEntryMetadata:
    """What one topic's entries get; `set_property` makes a property of the topic durable."""

    def __init__(self, writer: BrokerMetadataWriter, ledger_id: int, name: str, set_property: SetProperty) -> None:
        self._writer = writer
        self._ledger_id = ledger_id
        self._set_property = set_property
        self._writing = Background(name)

    @classmethod
    async def open(
        cls, managed_ledger: ManagedLedger, fields: BrokerMetadataFields, set_property: SetProperty
    ) -> "TopicEntryMetadata":
        """Find the number of the next message. RecordError if the last entry is damaged, MledgerError if it is away."""
        last, found, number = managed_ledger.last_confirmed, None, None
        if fields.indexes:
            if last.entry_id >= 0 and managed_ledger.ledger_list.exists(last):
                found = decode_entry((await managed_ledger.read_entry(last)).payload, str(last))
            number = next_index(managed_ledger.properties.items(), found)
            if number and managed_ledger.properties.get(INDEX_PROPERTY) != str(number - 1):
                await set_property(INDEX_PROPERTY, str(number - 1))
        writer = BrokerMetadataWriter(fields, number or 0)
        return cls(writer, last.ledger_id, managed_ledger.name, set_property)

    def prefixed(self, run: SendRun, now_ms: int) -> Sequence[bytes]:
        """The entries of a run with metadata before them; `now_ms` is the time since 1970."""
        return self._writer.prefixed(run.entries, run.messages, now_ms)

    def stored(self, ranges: Appended) -> None:
        """Entries are stored; with the first one of another ledger the number is written to the property."""
        if ranges[-1].ledger_id != self._ledger_id:
            self._ledger_id = ranges[-1].ledger_id
            if self._writer.next_index:
                self._writing.spawn(self._set_property(INDEX_PROPERTY, str(self._writer.next_index - 1)), "index")

    def failed(self, run: SendRun) -> None:
        """The entries of a run were not stored."""
        self._writer.taken_back(sum(run.messages))
