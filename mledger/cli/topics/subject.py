"""The topic that a command changes: with its options, and as the subject of a planned change."""

from collections.abc import Sequence
from dataclasses import dataclass

from mledger.admin.inspect import Inspector
from mledger.admin.undo.undo_file import ChangedRecord, SavedCursor
from mledger.cli.shared.changes.change_command import ChangeOptions, CommandChange
from mledger.cli.shared.changes.topic_owner import WriteOptions
from mledger.cli.shared.context import CommandContext
from mledger.cli.shared.output.results import OutputRecord, fields
from mledger.cli.shared.read_only import ReadOnlyCluster
from mledger.cli.shared.targets import Targets
from mledger.metastore.records.paths import TopicName


@dataclass(frozen=True, slots=True)
class Subject:
    """The topic that a command changes, and the options."""

    context: CommandContext
    command: str
    topic: TopicName
    options: WriteOptions
    change: ChangeOptions

    def inspector(self, cluster: ReadOnlyCluster) -> Inspector:
        """An inspector with the topic's settings."""
        return Inspector(cluster.metadata, cluster.bookies, self.options.config.password)


def change_of(
    subject: Subject,
    targets: Targets,
    shown: OutputRecord,
    before: Sequence[ChangedRecord],
    cursors: Sequence[SavedCursor],
    lost: Sequence[str] = (),
    *,
    pending: bool = True,
) -> CommandChange:
    """The change of this topic, with its plan: what it shows, saves and loses."""
    return CommandChange(
        command=subject.command,
        subject=str(subject.topic),
        plan=OutputRecord(fields(topic=str(subject.topic)) + shown.fields, shown.tables),
        before=tuple(before),
        managed_ledgers=targets.managed_ledgers,
        cursors=tuple(cursors),
        lost=tuple(lost),
        pending=pending,
    )
