"""What a restore of metadata takes away that its undo does not bring back; no I/O."""

from collections.abc import Mapping, Sequence

from mledger.metastore.backup.restore import RestoreAction, RestorePlan, ledger_id_at
from mledger.metastore.records.paths import topic_above
from mledger.metastore.runtime.name_lists import shorten

NAMED = 10
"""How many nodes, or ledgers, of one kind of loss are named."""


def plan_losses(
    plan: RestorePlan, restricted: Sequence[str], forgotten: Mapping[str, Sequence[int]]
) -> tuple[str, ...]:
    """One line for each kind of loss, with the nodes or ledgers that it is about.

    `forgotten` are the ledgers that topics' records, by their paths, list no more. `restricted` are the removed nodes
    with an access control list of their own, which undo files do not hold.
    """
    created, removed = plan.paths(RestoreAction.CREATE), plan.paths(RestoreAction.REMOVE)
    ledgers = sorted(found for found in map(ledger_id_at, removed) if found is not None)
    lines = []
    for path, gone in list(forgotten.items())[:NAMED]:
        lines.append(
            f"the way to {_counted(gone, 'ledger')} that {path} lists and the backup does not: nobody will read their "
            "entries; undo lists them again, until the topic is opened"
        )
    if len(forgotten) > NAMED:
        lines.append(f"the way to ledgers of {len(forgotten) - NAMED:,} more topics")
    cursors = [path for path in plan.paths(RestoreAction.CHANGE) if topic_above(path)]
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


def _counted(items: Sequence[object], what: str) -> str:
    return f"{len(items):,} {what}{'s' if len(items) != 1 else ''} ({shorten(list(map(str, items)), NAMED)})"
