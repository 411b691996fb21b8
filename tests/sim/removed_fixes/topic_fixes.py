"""Fixes of topics, cursors and their records, taken out again."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

import mledger.cursors.container as container
import mledger.ledgers.topic_record as topic_record
from mledger.cursors.creations import CursorCreations, NewCursor, _Creation
from mledger.cursors.cursor import Cursor
from mledger.cursors.persistence.cursor_persistence import CursorPersistence
from mledger.cursors.persistence.store import CursorState, CursorStore
from mledger.cursors.recovery import plan_cursor_recovery
from mledger.ledgers.topic_record import TopicRecord
from mledger.metastore.errors import MledgerError
from tests.sim.removed_fixes.patches import Fix, Patches, of_topics, with_all, with_step
from tests.sim.schedule import Schedule

MOST_RETRIES = 4
"""So many tries a write of a cursor had: 10 of them, by the product's own delays."""


def _trim_under_creations(patches: Patches) -> None:
    from mledger.topics.trimmer import Trimmer

    patches.put(Trimmer, "_held", lambda self: {})


def _forget_creations(patches: Patches) -> None:
    async def create(self: Any, name: str, wanted: NewCursor) -> Cursor:
        plan = plan_cursor_recovery(name, None, None, self._host.ledgers_to_start_in, start=wanted.initial)
        plan = replace(plan, cursor_properties=tuple((wanted.properties or {}).items()))
        state = CursorState(plan.acks.copy(), plan.properties, plan.cursor_properties)
        new = self._new[name] = _Creation(CursorStore.new(name, self._context, state), plan)
        try:
            await new.store.create()
        except BaseException:
            del self._new[name]
            raise
        return self._made(name)  # type: ignore[no-any-return]

    patches.put(CursorCreations, "create", create)


def _write_all_at_once(patches: Patches) -> None:
    patches.put(topic_record, "fits_one_write", lambda *_: True)


def _write_plainly(patches: Patches) -> None:
    async def read(cls: type[TopicRecord], store: Any, name: str, *, timeout_s: float | None = None) -> TopicRecord:
        record = await before.__func__(cls, store, name, timeout_s=timeout_s)
        record._compression = "NONE"
        return record  # type: ignore[no-any-return]

    before = patches.put(TopicRecord, "read", classmethod(read))


def _give_retries_up(patches: Patches) -> None:
    def failed(self: Any, error: MledgerError) -> None:
        before(self, error)
        if self._failures >= MOST_RETRIES and self._retry is not None:
            self._retry.cancel()

    patches.put(container, "repeat", lambda _: ())
    before = patches.put(CursorPersistence, "_failed", failed)


def _answer_unwritten_resets(patches: Patches) -> None:
    def must_write(self: Any, state: CursorState) -> bool:
        before = self.durable
        return self._uncertain or (state.acks, state.properties) != (before.acks, before.properties)

    patches.put(CursorPersistence, "_must_write", must_write)


def _small_requests(schedule: Schedule) -> bool:
    return schedule.limits.request_bytes > 0


FIXES: Sequence[Fix] = (
    (
        "C1",
        "a trim deleted ledgers under a cursor that was being created",
        _trim_under_creations,
        with_all(of_topics, with_step("subscribe")),
    ),
    (
        "C2",
        "a cursor whose creation's answer was lost was not known to its owner: trim went on under it, and the next "
        "try fenced the topic",
        _forget_creations,
        with_all(of_topics, with_step("lose after, away")),
    ),
    (
        "C6",
        "the trim of many ledgers was one write that no server took, for ever",
        _write_all_at_once,
        with_all(of_topics, _small_requests),
    ),
    (
        "C7",
        "a compressed record was written plain and no longer fitted: the topic could not be opened again",
        _write_plainly,
        with_all(of_topics, _small_requests, lambda schedule: schedule.limits.compressed),
    ),
    (
        "C12",
        "retries ended: a cursor's recovery or its write stayed undone, and trim blocked, without a sound",
        _give_retries_up,
        with_step("bookies away at recovery"),
    ),
    (
        "unwritten-reset",
        "an owner that another one had replaced answered a reset for which it had nothing to write",
        _answer_unwritten_resets,
        with_all(of_topics, with_step("reset")),
    ),
)
