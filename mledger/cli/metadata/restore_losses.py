"""What a restore of metadata takes away that its undo does not bring back; no I/O."""

from collections.abc import Mapping, Sequence

from mledger.admin.references.restored_ledgers import Forgotten
from mledger.cursors.compaction import is_compaction
from mledger.metastore.backup.restore import RestoreAction, RestorePlan, ledger_id_at
from mledger.metastore.records.paths import topic_above
from mledger.metastore.runtime.name_lists import shorten

NAMED = 10
"""How many nodes, or ledgers, of one kind of loss are named."""

UPLOADS = "the copies in tiered storage of ledgers"
UNLISTED = (
    "the way to {} that {} lists and the backup does not: nobody will read their entries; undo lists them again, until "
    "the topic is opened"
)
UPLOADED = (
    "the way to the copies in tiered storage of {} that {} names and the backup does not: nobody will read what "
    "bookies no longer have; undo names them again, until the topic is opened"
)
MISSING = (
    "the entries of {} that {} will list: neither the cluster nor the backup has them, and readers stop there until "
    "`topics repair` drops them"
)


def plan_losses(plan: RestorePlan, restricted: Sequence[str], forgotten: Forgotten) -> tuple[str, ...]:
    """One line for each kind of loss, with the nodes or ledgers that it is about.

    `restricted` are the removed nodes with an access control list of their own, which undo files do not hold.
    """
    created, removed = plan.paths(RestoreAction.CREATE), plan.paths(RestoreAction.REMOVE)
    ledgers = sorted(found for found in map(ledger_id_at, removed) if found is not None)
    lines = [*_ways(UNLISTED, forgotten.unlisted, "ledgers"), *_ways(UPLOADED, forgotten.uploaded, UPLOADS)]
    lines += _ways(MISSING, forgotten.missing, "ledgers that do not exist")
    changed = [path for path in plan.paths(RestoreAction.CHANGE) if topic_above(path)]
    compactions = [path for path in (*changed, *removed) if topic_above(path) and is_compaction(path)]
    if compactions:
        lines.append(
            f"the way to what {_counted(compactions, 'cursor')} compacted since the backup: readers of the compacted "
            "topic miss what the topic itself no longer has; undo leads there again, until the topic is opened"
        )
    cursors = [path for path in changed if not is_compaction(path)]
    if cursors:
        lines.append(
            f"what {_counted(cursors, 'cursor')} acknowledged since the backup: consumers get it again; undo brings it "
            "back, until the topic is opened"
        )
    if ledgers:
        lines.append(
            f"the entries of {_counted(ledgers, 'removed ledger')}: bookies that run again free them; undo restores "
            "only the records"
        )
    if removed:
        lines.append(
            f"the version and the creation (czxid, ctime) of {_counted(removed, 'removed node')}: undo creates them "
            "anew, at version 0"
        )
    if restricted:
        lines.append(
            f"the access control lists of {_counted(restricted, 'removed node')}: undo creates them with the default "
            "one"
        )
    if created:
        lines.append(f"the absence of {_counted(created, 'created node')}: undo does not remove them")
    return tuple(lines)


def _ways(text: str, by_topic: Mapping[str, Sequence[int]], what: str) -> list[str]:
    """A line for each topic to whose ledgers the way is lost, and one for those beyond the first."""
    lines = [text.format(_counted(gone, "ledger"), path) for path, gone in list(by_topic.items())[:NAMED]]
    more = len(by_topic) - NAMED
    return [*lines, f"the way to {what} of {more:,} more topics"] if more > 0 else lines


def _counted(items: Sequence[object], what: str) -> str:
    return f"{len(items):,} {what}{'s' if len(items) != 1 else ''} ({shorten(list(map(str, items)), NAMED)})"
