"""The broker's metadata of a topic's entries: puts it before them, and numbers messages on after a restart.

The number of the last message is in its entry. Before ledgers are trimmed it is also in the topic's property `index`,
as in Pulsar: the update of the topic's record that lists a new ledger writes it, and the opening of the topic.

Numbers rise, and no two messages have the same. A send that failed may be stored: its numbers are not given again.
"""

import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from mledger.broker.protocol.broker_metadata import BrokerMetadataFields, BrokerMetadataWriter
from mledger.broker.protocol.requests import SendRun
from mledger.cursors.positions import previous
from mledger.messages.pulsar_message import PulsarEntry, broker_metadata_of, decode_entry
from mledger.messages.pulsar_producer import INDEX_PROPERTY, next_index
from mledger.metastore.errors import RecordError
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.pb.PulsarApi_pb2 import MessageMetadata
from mledger.topics.managed_ledger import ManagedLedger

log = get_logger(__name__)

LOOKED_AT = 1000
SetProperty = Callable[[str, str], Coroutine[Any, Any, None]]


class TopicEntryMetadata:
    """What one topic's entries get."""

    def __init__(self, writer: BrokerMetadataWriter) -> None:
        self._writer = writer

    @classmethod
    async def open(
        cls, managed_ledger: ManagedLedger, fields: BrokerMetadataFields, set_property: SetProperty
    ) -> "TopicEntryMetadata":
        """Find the number of the next message; `set_property` makes a property of the topic durable.

        Raises MledgerError: the last entry is away.
        """
        number = None
        if fields.indexes:
            number = next_index(managed_ledger.properties.items(), await _last_numbered(managed_ledger))
            if number and managed_ledger.properties.get(INDEX_PROPERTY) != str(number - 1):
                await set_property(INDEX_PROPERTY, str(number - 1))
        opened = cls(BrokerMetadataWriter(fields, number or 0))
        managed_ledger.own_properties(opened._properties)
        return opened

    def _properties(self) -> dict[str, str]:
        number = self._writer.next_index
        return {INDEX_PROPERTY: str(number - 1)} if number else {}

    def prefixed(self, run: SendRun, now_ms: int) -> Sequence[bytes]:
        """The entries of a run with metadata before them; `now_ms` is the time since 1970."""
        return self._writer.prefixed(run.entries, run.messages, now_ms)

    def refused(self, run: SendRun) -> None:
        """The entries of a run were not sent to the ledger."""
        self._writer.taken_back(sum(run.messages))


async def _last_numbered(managed_ledger: ManagedLedger) -> PulsarEntry | None:
    """The last entry that is a message or has a broker's number; None if none of the last ones is or has."""
    at = managed_ledger.last_confirmed
    for _ in range(LOOKED_AT):
        if not managed_ledger.ledger_list.exists(at):
            return None
        payload = (await managed_ledger.read_entry(at)).payload
        try:
            return decode_entry(payload, str(at))
        except RecordError as error:  # a client sent it, or it is a raw one
            log.warning("last_entry_unreadable", topic=managed_ledger.name, position=at, error=error)
        with contextlib.suppress(RecordError):
            if (broker := broker_metadata_of(payload, str(at))) is not None:
                return PulsarEntry(MessageMetadata(), b"", broker)
        at = previous(managed_ledger.ledger_list, at)
    return None
