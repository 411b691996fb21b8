"""Deleting a topic for a command: its undo names what the deletion deleted, and nothing that another owner wrote."""

import contextlib

import mledger
from mledger.cli.shared.changes.change_command import CommandChange
from mledger.cli.shared.changes.topic_owner import WriteOptions
from mledger.errors import ManagedLedgerFenced
from mledger.ledgers.ledger_factory import StepHook
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.paths import TopicName, managed_ledger_path
from mledger.metastore.store import MetadataReader
from mledger.topics.deletion import DELETE_CURSORS, DELETE_TOPIC


async def delete_planned(
    cluster: mledger.Cluster, topic: TopicName, options: WriteOptions, change: CommandChange
) -> None:
    """Delete the topic as `Cluster.delete_topic` does, for `change`, which knows a copy of all its cursors.

    Raises what that does. After ManagedLedgerFenced undo has those cursors only that are gone: another owner may have
    written the others, and the topic's record.
    """
    name = topic.managed_ledger_name
    try:
        await cluster.delete_topic(
            str(topic), take_over=options.take_over, unreadable_cursors=True, on_step=_steps(change, name)
        )
    except ManagedLedgerFenced:
        with contextlib.suppress(StoreUnavailable):
            await _leave_to_owner(cluster.metadata, change, name)
        raise


def _steps(change: CommandChange, name: str) -> StepHook:
    """A hook that notes the deletion as begun, and records as written once a step that deletes some was carried out."""
    last = ""

    def step(what: str) -> None:
        nonlocal last
        change.begun.add(name)
        if last in (DELETE_CURSORS, DELETE_TOPIC):
            change.touch(name)
        last = what

    return step


async def _leave_to_owner(reader: MetadataReader, change: CommandChange, name: str) -> None:
    record = managed_ledger_path(name)
    cursors = [each.path for each in change.before if each.path.startswith(f"{record}/")]
    change.left_to_others.update((record, *cursors))
    nodes = await reader.get_many(cursors)
    change.left_to_others.difference_update(path for path, node in zip(cursors, nodes, strict=True) if node is None)
