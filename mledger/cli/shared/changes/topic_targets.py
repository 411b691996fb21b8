"""The records and cursor states of a command's topics that the undo file must keep."""

from collections.abc import Sequence
from dataclasses import replace

from mledger.admin.cursor_inspection import CursorInspection
from mledger.admin.inspect import Inspector
from mledger.admin.references.attached_ledgers import pending_ack_topics
from mledger.admin.undo.undo_file import ChangedRecord, SavedCursor
from mledger.admin.undo.undo_plan import saved_cursor
from mledger.bookie.errors import BookieError
from mledger.cli.shared.changes.change_command import read_before
from mledger.cli.shared.changes.topic_owner import WriteOptions
from mledger.cli.shared.read_only import ReadOnlyCluster, read_only_cluster
from mledger.cli.shared.targets import Targets, find_targets
from mledger.errors import InvalidLedgerList, TopicChanged
from mledger.metastore.errors import BadVersion, MetadataAccessDenied, MledgerError, RecordError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.values import NO_CURSOR_LEDGER
from mledger.metastore.store import MetadataReader


async def with_pending_acks(cluster: ReadOnlyCluster, targets: Targets) -> Targets:
    """The targets, and before them their topics of pending acknowledgements, which are deleted too."""
    found = [each for topic in targets.topics for each in await pending_ack_topics(cluster.metadata, topic)]
    return replace(targets, topics=tuple(dict.fromkeys((*found, *targets.topics))))


async def records_of(cluster: ReadOnlyCluster, targets: Targets) -> tuple[ChangedRecord, ...]:
    """The records of the topics and of their cursors; call this before the plan reads anything."""
    paths = [targets.named.partitioned_topic_path] if targets.partitioned is not None else []
    return await read_before(cluster.metadata, [*paths, *await _paths_of(cluster, targets.topics)])


async def records_of_each(
    cluster: ReadOnlyCluster, topics: Sequence[TopicName]
) -> dict[TopicName, tuple[ChangedRecord, ...] | MetadataAccessDenied]:
    """The records of each topic and of its cursors, or why they may not be read; call it before the plan reads."""
    try:
        return {**await _records_of_all(cluster, topics)}
    except MetadataAccessDenied as error:
        if len(topics) == 1:
            return {topics[0]: error}
    found: dict[TopicName, tuple[ChangedRecord, ...] | MetadataAccessDenied] = {}
    for topic in topics:
        found |= await records_of_each(cluster, [topic])
    return found


async def _records_of_all(
    cluster: ReadOnlyCluster, topics: Sequence[TopicName]
) -> dict[TopicName, tuple[ChangedRecord, ...]]:
    found: dict[str, list[ChangedRecord]] = {topic.managed_ledger_path: [] for topic in topics}
    for record in await read_before(cluster.metadata, await _paths_of(cluster, topics)):
        found[record.path if record.path in found else record.path.rpartition("/")[0]].append(record)
    return {topic: tuple(found[topic.managed_ledger_path]) for topic in topics}


async def check_planned_records(
    url: str, targets: Targets, before: Sequence[ChangedRecord], options: WriteOptions
) -> None:
    """Raise BadVersion if the topic has a cursor, a partition or a pending-ack topic that the undo file lacks.

    TopicChanged if a topic's record was written since the plan was made, but for an owner that is taken over.
    """
    known = {record.path: record for record in before}
    async with read_only_cluster(url, options.client.tls) as cluster:
        await cluster.metadata.sync()
        now = await with_pending_acks(cluster, await find_targets(cluster, targets.named))
        found = await records_of(cluster, now)
    added = [record.path for record in found if record.path not in known]
    if added:
        raise BadVersion(f"{added[0]} was created since the plan was made: run the command again", added[0])
    topics = {topic.managed_ledger_path for topic in now.topics}
    changed = [record.path for record in found if record.path in topics and record != known[record.path]]
    if changed and not options.take_over:
        raise _written(changed[0])


async def check_unwritten(reader: MetadataReader, topic: TopicName, planned_at: int | None) -> None:
    """Raise TopicChanged if the topic's record is no longer at the version `planned_at`, if there was one."""
    path = topic.managed_ledger_path
    if planned_at is not None and (await reader.get(path)).version != planned_at:
        raise _written(path)


def _written(path: str) -> TopicChanged:
    return TopicChanged(f"{path} was written since the plan was made: run the command again", path)


async def _paths_of(cluster: ReadOnlyCluster, topics: Sequence[TopicName]) -> list[str]:
    """The nodes of the topics and of their cursors."""
    paths = []
    folders = [topic.managed_ledger_path for topic in topics]
    for folder, children in zip(folders, await cluster.metadata.children_many(folders), strict=True):
        paths += [folder, *(f"{folder}/{child}" for child in children or ())]
    return paths


def saved_states(cursors: Sequence[CursorInspection], records: Sequence[ChangedRecord]) -> tuple[SavedCursor, ...]:
    """The readable states in cursor ledgers of cursors in `records`; an open does not change the unreadable ones."""
    paths = {record.path for record in records}
    return tuple(
        saved_cursor(found.path, found.plan)
        for found in cursors
        if found.plan is not None
        and found.path in paths
        and (found.record is None or found.record.cursors_ledger_id != NO_CURSOR_LEDGER)
    )


async def states_kept_and_lost(
    inspector: Inspector, topic: TopicName, records: Sequence[ChangedRecord]
) -> tuple[tuple[SavedCursor, ...], tuple[str, ...]]:
    """The cursor states to save before a topic is deleted, and a line for each that cannot be saved.

    A topic can be deleted even if its bookies are unavailable or its list of ledgers is damaged.
    """
    try:
        cursors = await inspector.cursors(str(topic))
    except (BookieError, RecordError, InvalidLedgerList) as error:
        return (), (f"the cursors' states of {topic} that are not in their records: {error}",)
    saved: list[SavedCursor] = []
    lost: list[str] = []
    for found in cursors:
        try:
            if found.error is not None:
                raise found.error
            saved += saved_states([found], records)
        except MledgerError as error:
            lost.append(f"the state of cursor {found.name} of {topic}: {error}")
    return tuple(saved), tuple(lost)
