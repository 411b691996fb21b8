"""The ledgers to delete with a topic or a cursor, as the plan of a deletion shows them."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from mledger.admin.references.attached_ledgers import Attachments, find_attached
from mledger.admin.undo.undo_file import ChangedRecord
from mledger.bookie.errors import BookieError
from mledger.cli.shared.output.results import Value, columns
from mledger.cli.shared.read_only import ReadOnlyCluster
from mledger.ledgers.ledger_list import check_possible
from mledger.ledgers.orphans.pending_records import PendingRecord, read_records
from mledger.ledgers.orphans.references import Naming
from mledger.metastore.errors import BadVersion, RecordError
from mledger.metastore.records.codec import decode_managed_ledger_info
from mledger.metastore.records.partitioned_topic import PartitionedTopic, decode_partitioned_topic
from mledger.metastore.records.paths import DELETIONS, TopicName
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo
from mledger.metastore.runtime.name_lists import shorten

LEDGER_COLUMNS = columns("topic", "ledger_id", "entries", "size", "closed_ms")
NAMED_COLUMNS = (*LEDGER_COLUMNS, *columns("named_as"))

Row = tuple[Value, ...]


async def ledgers_to_lose(
    cluster: ReadOnlyCluster, topic: TopicName, password: bytes, records: Sequence[ChangedRecord]
) -> tuple[list[LedgerInfo], list[str]]:
    """The topic's ledgers, open ones with their end according to the bookies, and lines for unknown ends."""
    (record,) = (each for each in records if each.path == topic.managed_ledger_path)
    ledgers, unknown = [], []
    for ledger in info_of(record).ledgers:
        if not ledger.timestamp:
            try:
                check_possible([ledger.ledger_id], record.path)
                peek = await cluster.bookies.peek(ledger.ledger_id, password)
                ledger = replace(ledger, entries=peek.last_entry + 1, size=peek.length)
                peek.decided()
            except (BookieError, RecordError) as error:
                unknown.append(f"ledger {ledger.ledger_id} of {topic}, with an unknown number of entries: {error}")
        ledgers.append(ledger)
    return ledgers, unknown


async def attached_to(cluster: ReadOnlyCluster, topic: TopicName, records: Sequence[ChangedRecord]) -> Attachments:
    """The ledgers other than cursor ledgers that the topic's cursors among `records` name."""
    folder = f"{topic.managed_ledger_path}/"
    paths = [record.path for record in records if record.path.startswith(folder)]
    return await find_attached(cluster.metadata, cluster.bookies, topic.managed_ledger_name, paths)


async def recorded_deletions(cluster: ReadOnlyCluster, managed_ledgers: Collection[str]) -> list[PendingRecord]:
    """The ledgers that a command or an owner has removed from these topics' lists, and not deleted since (R10)."""
    found = await read_records(cluster.metadata)
    return [each for each in found if each.managed_ledger in managed_ledgers and each.path.startswith(f"{DELETIONS}/")]


def left_over(records: Sequence[PendingRecord]) -> list[str]:
    """A line about the ledgers of `recorded_deletions`, which opening the topic deletes."""
    if not records:
        return []
    ids = shorten([str(each.ledger_id) for each in records])
    return [f"an interrupted command or owner left ledgers to delete, which this deletes: ledger {ids}"]


def info_of(record: ChangedRecord) -> ManagedLedgerInfo:
    """Decode the topic's record. Raises BadVersion if it was deleted."""
    return decode_managed_ledger_info(_data(record), record.path).value


def partitioned_of(record: ChangedRecord) -> PartitionedTopic:
    """Decode the partitioned topic's record. Raises BadVersion if it was deleted."""
    return decode_partitioned_topic(_data(record), record.path)


def _data(record: ChangedRecord) -> bytes:
    if record.before is None:
        raise BadVersion(f"{record.path} was deleted meanwhile", record.path)
    return record.before.data


def ledger_rows(topic: TopicName, ledgers: Sequence[LedgerInfo]) -> list[Row]:
    """Rows of LEDGER_COLUMNS."""
    return [(str(topic), each.ledger_id, each.entries, each.size, each.timestamp or None) for each in ledgers]


def data_rows(topic: TopicName, ledgers: Sequence[LedgerInfo]) -> list[Row]:
    """Rows of NAMED_COLUMNS for ledgers of the topic's list."""
    return [(*row, Naming.DATA.value) for row in ledger_rows(topic, ledgers)]


def attached_rows(topic: TopicName, attached: Attachments) -> list[Row]:
    """Rows of NAMED_COLUMNS for ledgers that cursors name."""
    return [(str(topic), a.ledger_id, a.entries, a.size, None, a.naming.value) for a in attached.ledgers]


def left_in_tiered_storage(topic: TopicName, ledgers: Sequence[LedgerInfo]) -> list[str]:
    """A line about copies of the ledgers that nothing will name any more."""
    offloaded = [str(each.ledger_id) for each in ledgers if each.offload is not None]
    if not offloaded:
        return []
    return [f"{topic}: copies in tiered storage stay, and only the undo file names them: ledger {shorten(offloaded)}"]


def lost_attached(topic: TopicName, attached: Attachments) -> list[str]:
    """A line for each attached ledger, which is lost, and for what is unknown."""
    lines = [*attached.unknown]
    for each in attached.ledgers:
        entries = f", with {each.entries:,} entries" if each.naming is Naming.KEPT and each.entries is not None else ""
        lines.append(f"ledger {each.ledger_id} of {topic}, {each.naming.value}{entries}")
    return lines


def total(rows: Sequence[tuple[Value, ...]], column: int) -> int:
    """The sum of a column's numbers; what is not one counts as 0."""
    return sum(value for row in rows if isinstance(value := row[column], int))
