"""What auto-recovery keeps in the metadata tree, read as Java left it."""

import pytest

from mledger.metastore.cluster.autorecovery import (
    Mark,
    disable_path,
    list_marks,
    lost_bookie_delay_path,
    read_recovery_state,
)
from mledger.metastore.cluster.underreplication import UnderreplicatedLedger
from mledger.metastore.errors import RecordError
from mledger.metastore.memory.store import MemoryStore
from tests.support.aio import run
from tests.support.recordings import golden

DUMP = "znodes/bk-underreplication.json"
MISSING = "127.0.0.1:33482"


def on_golden_tree(ask):
    """The result of `ask(store)` on the tree of the last dump."""

    async def main():
        async with MemoryStore() as store:
            await golden.load_nodes(store, {node.path: node for node in golden.nodes(DUMP)}.values())
            return await ask(store)

    return run(main())


def test_marks_are_listed_by_ledger_with_their_replicators():
    marks = on_golden_tree(list_marks)
    ids = [mark.ledger_id for mark in marks]
    assert ids == sorted(ids)
    assert {1, 2147483645, 5000000000, 1234567890123456791, 9223372036854775805} <= set(ids)
    assert marks[0] == Mark(1, UnderreplicatedLedger((MISSING,), 1795252066561), None)
    assert {mark.ledger_id: mark.worker for mark in marks if mark.worker} == {2147483645: "localhost"}


def test_the_auditor_and_the_delay_are_read():
    state = on_golden_tree(read_recovery_state)
    assert (state.enabled, state.auditor, state.lost_bookie_delay_s) == (True, "127.0.0.1:33481", 0)


def test_the_first_vote_counts_and_the_switch_is_a_node():
    async def ask(store):
        await store.create(disable_path())
        await store.create("/ledgers/underreplication/auditorelection/V_0000000010", b'bookieId: "later"\n')
        return await read_recovery_state(store)

    state = on_golden_tree(ask)
    assert (state.enabled, state.auditor) == (False, "127.0.0.1:33481")


PULSARS_LEADER = "/ledgers/underreplication/leader"


def test_an_auditor_elected_through_pulsar_s_metadata_driver_is_read():
    """The node as the bookies of Pulsar 4.2 left it."""

    async def ask():
        async with MemoryStore() as store:
            await store.create(PULSARS_LEADER, b'"127.0.0.1:23192"', parents=True)
            return await read_recovery_state(store)

    assert run(ask()).auditor == "127.0.0.1:23192"


def test_auditors_of_both_drivers_are_named():
    async def ask(store):
        await store.create(PULSARS_LEADER, b'"127.0.0.1:23192"')
        return await read_recovery_state(store)

    assert on_golden_tree(ask).auditor == "127.0.0.1:33481, 127.0.0.1:23192"


@pytest.mark.parametrize("data", [b"", b"no json", b"[1]", b"\xff"])
def test_an_unreadable_election_is_named(data):
    async def ask():
        async with MemoryStore() as store:
            await store.create(PULSARS_LEADER, data, parents=True)
            return await read_recovery_state(store)

    with pytest.raises(RecordError, match=PULSARS_LEADER):
        run(ask())


def test_a_cluster_without_auto_recovery_has_no_marks_and_no_auditor():
    async def ask():
        async with MemoryStore() as store:
            return await list_marks(store), await read_recovery_state(store)

    marks, state = run(ask())
    assert marks == []
    assert (state.enabled, state.auditor, state.lost_bookie_delay_s) == (True, None, None)


def test_a_delay_that_is_no_number_is_refused():
    async def ask(store):
        await store.put(lost_bookie_delay_path(), b"soon", -1)
        return await read_recovery_state(store)

    with pytest.raises(RecordError, match="soon"):
        on_golden_tree(ask)
