"""Ledgers that a topic's records name and that are others': those of a damaged record, or of one from another cluster.

What a ledger's own metadata says of its owner counts before what a record says: deleting it takes the entries of a
topic that nobody meant (R10). A ledger that names no owner, or whose metadata does not parse, belongs to the record.
"""

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mledger.bookie.errors import NoSuchLedger
from mledger.errors import ForeignLedger
from mledger.ledgers.orphans.references import (
    COMPACTED_TOPIC,
    DELAYED_TOPIC,
    MANAGED_LEDGER_NAME,
    SCHEMA_ID,
    compacted_topic,
    custom_texts,
    named_topic,
    origin_of,
)
from mledger.metastore.errors import InvalidName, RecordError
from mledger.metastore.records.ledger_metadata import LedgerMetadata
from mledger.metastore.records.paths import TopicName, is_possible_ledger
from mledger.metastore.runtime.logs.loggers import get_logger

if TYPE_CHECKING:  # commands that only look need nothing of what writes ledgers
    from mledger.bookie.client.client import BookKeeper

log = get_logger(__name__)


def plan_foreign(ledger_id: int, metadata: LedgerMetadata, managed_ledger: str) -> str:
    """Whose the ledger is by its own metadata, in words; empty if it is the managed ledger's, or does not say."""
    topic = _topic_of(managed_ledger)
    own = {MANAGED_LEDGER_NAME: managed_ledger, COMPACTED_TOPIC: topic, DELAYED_TOPIC: topic}
    return _foreign(ledger_id, metadata, own)


def plan_foreign_to_schema(ledger_id: int, metadata: LedgerMetadata, schema_id: str) -> str:
    """As `plan_foreign`, of a ledger that a schema's locator names."""
    return _foreign(ledger_id, metadata, {SCHEMA_ID: schema_id})


def _foreign(ledger_id: int, metadata: LedgerMetadata, own: Mapping[str, str]) -> str:
    custom = custom_texts(metadata)
    said = {key: custom[key] for key in (MANAGED_LEDGER_NAME, DELAYED_TOPIC, SCHEMA_ID) if custom.get(key)}
    if compacted := compacted_topic(custom):
        said[COMPACTED_TOPIC] = compacted
    foreign = any(own.get(key) != value for key, value in said.items())
    return origin_of(ledger_id, metadata, 0).of if foreign else ""


def check_own(managed_ledger: str, ledger_id: int, metadata: LedgerMetadata) -> None:
    """Raise ForeignLedger if a ledger that the managed ledger's records name is another's by its own metadata."""
    of = plan_foreign(ledger_id, metadata, managed_ledger)
    if of:
        raise ForeignLedger(f"ledger {ledger_id} is that of {of}")


def is_component_of(metadata: LedgerMetadata, component: str, managed_ledger: str) -> bool:
    """Whether a ledger says of itself that this one of `TOPIC_OF` wrote it for the managed ledger's topic."""
    named, topic = custom_texts(metadata).get("component"), _topic_of(managed_ledger)
    return named == component and bool(topic) and named_topic(component, metadata) == topic


async def delete_own_ledger(bookkeeper: "BookKeeper", ledger_id: int, managed_ledger: str) -> bool:
    """Delete a ledger of the managed ledger; False, with a warning, if it is another's, or there is none.

    Raises StoreUnavailable.
    """
    if not is_possible_ledger(ledger_id):
        return False
    try:
        with contextlib.suppress(RecordError):
            check_own(managed_ledger, ledger_id, await bookkeeper.metadata(ledger_id))
        await bookkeeper.delete_ledger(ledger_id)
    except NoSuchLedger:
        return False
    except ForeignLedger as error:
        log.warning("foreign_ledger_kept", topic=managed_ledger, error=error)
        return False
    return True


def _topic_of(managed_ledger: str) -> str:
    """The full name of the managed ledger's topic; empty if it is no topic's."""
    try:
        return str(TopicName.of_managed_ledger(managed_ledger))
    except InvalidName:
        return ""
