"""When a state is written, and what of one that is too large for one entry (C5)."""

import asyncio
from types import SimpleNamespace

import pytest

from mledger.bookie.errors import BookieUnavailable
from mledger.config import ManagedLedgerConfig
from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.persistence import cursor_persistence
from mledger.cursors.persistence.cursor_persistence import CursorPersistence, plan_partial
from mledger.cursors.persistence.store import CursorState
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import BatchDeletion, LedgerInfo
from tests.support.aio import run

LEDGERS = LedgerList([LedgerInfo(3, 100)])


def state(mark_delete: int, *deleted: int, batch: BatchDeletion | None = None) -> CursorState:
    acks = AckState(Position(3, -1))
    acks.reset(Position(3, mark_delete), batch)
    acks.acknowledge([Position(3, entry) for entry in deleted], LEDGERS)
    return CursorState(acks, (("n", mark_delete),), (("who", "me"),))


def test_mark_delete_is_written_with_the_ranges_that_were_durable_above_it():
    batch = BatchDeletion(Position(3, 9), (1,))
    partial = plan_partial(state(5, 7, 8, 20, 22, 24), state(1, 3, 7, 8, batch=batch))
    assert partial.mark_delete == Position(3, 5)
    assert partial.acks == state(5, 7, 8, batch=batch).acks
    assert (partial.properties, partial.cursor_properties) == ((("n", 5),), (("who", "me"),))


def test_after_a_reset_no_earlier_durable_range_counts():
    assert plan_partial(state(5, 20, 22), None).acks == state(5).acks


def test_writing_it_does_not_change_the_durable_state():
    durable = state(1, 7)
    plan_partial(state(9, 20), durable)
    assert durable == state(1, 7)


@pytest.mark.parametrize(("reset", "written"), [(False, 0), (True, 1)])
def test_a_state_that_is_durable_already_is_written_again_only_for_a_reset(reset, written):
    """What a former owner resets may have been moved by a later one, which only the write shows."""

    async def main():
        states = []

        async def write(state):
            states.append(state)

        host, store = SimpleNamespace(config=ManagedLedgerConfig()), SimpleNamespace(write=write)
        persistence = CursorPersistence(host, store, lambda: state(5, 7), pytest.fail)
        persistence.changed(undo=(lambda: None) if reset else None)
        await persistence.flush()
        return len(states)

    assert run(main()) == written


def test_a_move_whose_caller_was_cancelled_during_the_write_is_written_again(monkeypatch):
    """The trim that waits for it would not ask again: in memory the cursor has left the ledger."""
    monkeypatch.setattr(cursor_persistence, "RETRY_FIRST_S", 0.0)

    async def main():
        begun, written = asyncio.Event(), asyncio.get_running_loop().create_future()

        async def unheard(state):
            begun.set()
            await asyncio.Event().wait()

        async def write(state):
            written.set_result(state.mark_delete)

        async def write_properties(properties):
            """They are as they were."""

        host = SimpleNamespace(config=ManagedLedgerConfig(), mark_delete_moved=lambda old, new: None)
        store = SimpleNamespace(
            is_writing=False, write_to_znode=unheard, write=write, write_properties=write_properties
        )
        states = [state(4)]
        persistence = CursorPersistence(host, store, lambda: states[-1], pytest.fail)
        states.append(state(5))
        persistence.changed()
        moving = asyncio.ensure_future(persistence.persist_without_ledger())
        await begun.wait()
        moving.cancel()
        return await written

    assert run(main()) == Position(3, 5)


def test_a_recovery_that_was_cancelled_during_the_write_leaves_nothing_that_writes(monkeypatch):
    """Its cursor is nobody's, so that no close or fence would end the retries; the topic may have another owner."""
    monkeypatch.setattr(cursor_persistence, "RETRY_FIRST_S", 0.0)

    async def main():
        begun, later = asyncio.Event(), []

        async def unheard(state):
            begun.set()
            await asyncio.Event().wait()

        async def write(written):
            later.append(written)

        host = SimpleNamespace(config=ManagedLedgerConfig())
        store = SimpleNamespace(is_writing=False, write_to_znode=unheard, write=write, write_properties=write)
        persistence = CursorPersistence(host, store, lambda: state(4), pytest.fail)
        recovery = asyncio.ensure_future(persistence.persist_recovered())
        await begun.wait()
        recovery.cancel()
        await asyncio.wait([recovery])
        for _ in range(5):
            await asyncio.sleep(0)
        return later

    assert run(main()) == []


async def reset_and_acknowledged(states, store, begun):
    """A cursor's persistence, its reset whose write has `begun`, and what was acknowledged after that."""
    host = SimpleNamespace(
        config=ManagedLedgerConfig(), name="topic", emit=lambda event: None, mark_delete_moved=lambda old, new: None
    )
    persistence = CursorPersistence(host, store, lambda: states[-1], pytest.fail)
    states.append(state(9))
    persistence.changed(undo=lambda: states.append(state(1)))
    reset = asyncio.ensure_future(persistence.flush())
    await begun.wait()
    states.append(state(10))
    persistence.changed()
    return persistence, reset, persistence.request()


def test_a_reset_that_was_not_written_is_undone_and_what_came_after_it_fails_with_it(monkeypatch):
    """What the write had in it may be stored: the state before the reset is written again."""
    monkeypatch.setattr(cursor_persistence, "RETRY_FIRST_S", 0.0)

    async def main():
        states, begun, waits = [state(1)], asyncio.Event(), asyncio.get_running_loop().create_future()
        stored = asyncio.get_running_loop().create_future()

        async def write(state):
            if waits.done():
                stored.set_result(state.mark_delete)
            else:
                begun.set()
                await waits

        async def write_properties(properties):
            """They are as they were."""

        store = SimpleNamespace(name="sub", write=write, write_properties=write_properties)
        _, reset, acknowledgement = await reset_and_acknowledged(states, store, begun)
        waits.set_exception(BookieUnavailable("no answer"))
        for failed in (reset, acknowledgement):
            with pytest.raises(BookieUnavailable):
                await failed
        return await stored

    assert run(main()) == Position(3, 1)


def test_a_close_answers_nothing_that_a_failed_reset_has_undone():
    """Acknowledged after the reset, closed while that was written: the state that the close writes is without it."""

    async def main():
        states, begun, waits = [state(1)], asyncio.Event(), asyncio.get_running_loop().create_future()
        stored = []

        async def write(state):
            begun.set()
            await waits

        async def write_properties(properties):
            """They are as they were."""

        async def close(state, *, changed):
            stored.append(state.mark_delete)

        store = SimpleNamespace(name="sub", write=write, write_properties=write_properties, close=close)
        persistence, reset, acknowledgement = await reset_and_acknowledged(states, store, begun)
        closing = asyncio.ensure_future(persistence.close())
        await asyncio.sleep(0)
        waits.set_exception(BookieUnavailable("no answer"))
        for failed in (reset, acknowledgement):
            with pytest.raises(BookieUnavailable):
                await failed
        await closing
        return stored

    assert run(main()) == [Position(3, 1)]
