"""What a restore says to be lost: by name, and nothing where its undo brings all back."""

from mledger.admin.references.restored_ledgers import Forgotten
from mledger.cli.metadata.restore_losses import NAMED, plan_losses
from mledger.cursors.compaction import COMPACTION
from mledger.metastore.backup.restore import RestoreAction, RestorePlan, RestoreStep


def plan_of(action: RestoreAction, *paths: str) -> RestorePlan:
    return RestorePlan(tuple(RestoreStep(path, action, 3) for path in paths), 0, 0, None)


def test_removed_ledgers_lose_their_entries_and_every_removed_node_its_creation():
    removed = plan_of(RestoreAction.REMOVE, "/ledgers/00/0000", "/ledgers/00/0000/L0007", "/ledgers/00/0000/L0002")
    assert plan_losses(removed, [], Forgotten()) == (
        "the entries of 2 removed ledgers (2, 7): bookies that run again free them; undo restores only the records",
        "the version and the creation (czxid, ctime) of 3 removed nodes (/ledgers/00/0000, /ledgers/00/0000/L0007, "
        "/ledgers/00/0000/L0002): undo creates them anew, at version 0",
    )


def test_of_many_nodes_the_first_are_named():
    paths = [f"/n{number}" for number in range(NAMED + 3)]
    (line,) = plan_losses(plan_of(RestoreAction.CREATE, *paths), [], Forgotten())
    assert line == (
        f"the absence of {NAMED + 3} created nodes ({', '.join(paths[:NAMED])} and 3 more): undo does not remove them"
    )


def test_changed_and_kept_nodes_lose_nothing():
    steps = [RestoreStep(f"/{action.value}", action, 0) for action in (RestoreAction.CHANGE, RestoreAction.KEEP)]
    assert plan_losses(RestorePlan(tuple(steps), 0, 0, None), [], Forgotten()) == ()


def test_cursors_that_go_back_lose_what_was_acknowledged_since():
    topic = "/managed-ledgers/t/n/persistent/x"
    assert plan_losses(plan_of(RestoreAction.CHANGE, topic, f"{topic}/one"), [], Forgotten()) == (
        f"what 1 cursor ({topic}/one) acknowledged since the backup: consumers get it again; undo brings it back, "
        "until the topic is opened",
    )


def test_each_topic_that_would_forget_ledgers_is_named_with_them():
    forgotten = {f"/managed-ledgers/t/n/persistent/{number}": (7, 8) for number in range(NAMED + 2)}
    first, *_, last = plan_losses(RestorePlan((), 0, 0, None), [], Forgotten(forgotten))
    assert first == (
        "the way to 2 ledgers (7, 8) that /managed-ledgers/t/n/persistent/0 lists and the backup does not: nobody will "
        "read their entries; undo lists them again, until the topic is opened"
    )
    assert last == "the way to ledgers of 2 more topics"


def test_copies_in_tiered_storage_that_no_record_will_name_are_lost():
    path = "/managed-ledgers/t/n/persistent/x"
    assert plan_losses(RestorePlan((), 0, 0, None), [], Forgotten(uploaded={path: (7,)})) == (
        f"the way to the copies in tiered storage of 1 ledger (7) that {path} names and the backup does not: nobody "
        "will read what bookies no longer have; undo names them again, until the topic is opened",
    )


def test_a_compaction_cursor_that_goes_back_or_is_removed_leads_to_nothing_that_was_compacted_since():
    path = f"/managed-ledgers/t/n/persistent/x/{COMPACTION}"
    expected = (
        f"the way to what 1 cursor ({path}) compacted since the backup: readers of the compacted topic miss what the "
        "topic itself no longer has; undo leads there again, until the topic is opened"
    )
    assert plan_losses(plan_of(RestoreAction.CHANGE, path), [], Forgotten()) == (expected,)
    assert plan_losses(plan_of(RestoreAction.REMOVE, path), [], Forgotten())[0] == expected


def test_ledgers_that_a_restored_list_names_in_vain_are_named():
    path = "/managed-ledgers/t/n/persistent/x"
    assert plan_losses(RestorePlan((), 0, 0, None), [], Forgotten(missing={path: (7, 8)})) == (
        f"the entries of 2 ledgers (7, 8) that {path} will list: neither the cluster nor the backup has them, and "
        "readers stop there until `topics repair` drops them",
    )
