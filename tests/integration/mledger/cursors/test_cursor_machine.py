"""A cursor on real storage against a simple model, while its owner closes, dies and returns (C1 to C8, R1 to R9)."""

import asyncio
import itertools

import uvloop
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import mledger
from tests.support.aio import HANG_S
from tests.support.topics import KEEP, assert_nothing_orphaned, fill

_topics = itertools.count(1)


class CursorMachine(RuleBasedStateMachine):
    """Each run has a topic of its own in the cluster at `url`."""

    url = ""

    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self.topic = f"persistent://tests/machine/topic-{next(_topics)}"
        self.positions: list[mledger.Position] = []
        self.deleted: set[int] = set()

    def do(self, work):
        async def bounded():
            async with asyncio.timeout(HANG_S):
                return await work

        return self.runner.run(bounded())

    @initialize()
    def create(self):
        self.do(self._open())

    async def _open(self):
        self.context = mledger.open_cluster(self.url, config=KEEP)
        cluster = await self.context.__aenter__()
        self.opened = await cluster.open_topic(self.topic, create=True)
        self.cursor = await self.opened.open_cursor("sub")
        await self.opened.initialized()

    async def _die(self):
        await self.opened.abandon()
        await self.context.__aexit__(None, None, None)
        await self._open()

    async def _close(self):
        await self.context.__aexit__(None, None, None)
        await self._open()

    @rule(count=st.integers(1, 12))
    def append(self, count):
        self.positions += self.do(fill(self.opened, count, len(self.positions)))

    @precondition(lambda self: self.positions)
    @rule(data=st.data())
    def acknowledge(self, data):
        at = data.draw(st.sets(st.integers(0, len(self.positions) - 1), max_size=6))
        self.deleted |= at
        self.do(self._awaited(lambda: self.cursor.acknowledge([self.positions[each] for each in at])))

    async def _awaited(self, make):
        await make()

    @precondition(lambda self: self.positions)
    @rule(data=st.data())
    def acknowledge_cumulative(self, data):
        at = data.draw(st.integers(0, len(self.positions) - 1))
        if self.positions[at] >= self.cursor.mark_delete:
            self.deleted |= set(range(at + 1))
            self.do(self._awaited(lambda: self.cursor.acknowledge_cumulative(self.positions[at])))

    @rule(count=st.integers(0, 5), include_deleted=st.booleans())
    def skip(self, count, include_deleted):
        first = next((at for at in range(len(self.positions)) if at not in self.deleted), len(self.positions))
        if include_deleted:
            self.deleted |= set(range(min(first + count, len(self.positions))))
        else:
            live = [at for at in range(first, len(self.positions)) if at not in self.deleted][:count]
            if live:
                self.deleted |= set(range(live[-1] + 1))
        self.do(self.cursor.skip(count, include_deleted=include_deleted))

    @precondition(lambda self: self.positions)
    @rule(data=st.data())
    def reset(self, data):
        at = data.draw(st.integers(0, len(self.positions) - 1))
        self.deleted = set(range(at))
        self.do(self.cursor.reset(self.positions[at]))
        assert self.cursor.read_position == self.positions[at]

    @rule()
    def clear(self):
        self.deleted = set(range(len(self.positions)))
        self.do(self.cursor.clear_backlog())

    @rule(count=st.integers(1, 30))
    def read_from_mark_delete(self, count):
        self.cursor.rewind()
        entries = self.do(self.cursor.read(count))
        live = [position for at, position in enumerate(self.positions) if at not in self.deleted]
        assert [entry.position for entry in entries] == live[:count]

    @rule()
    def die_and_come_back(self):
        self.do(self._die())

    @rule()
    def close_and_come_back(self):
        self.do(self._close())

    @invariant()
    def the_state_is_the_model_s(self):
        if not hasattr(self, "cursor"):
            return
        assert self.cursor.backlog == len(self.positions) - len(self.deleted)
        found = {at for at, position in enumerate(self.positions) if self.cursor.is_deleted(position)}
        assert found == self.deleted
        assert self.cursor.durable_mark_delete <= self.cursor.mark_delete  # R9 may be moving it

    def teardown(self):
        if hasattr(self, "context"):
            name = self.opened.name
            self.do(self.context.__aexit__(None, None, None))
            self.do(assert_nothing_orphaned(self.url, name))
        self.runner.close()


def test_a_cursor_equals_the_model_through_closes_and_deaths(topic_url):
    CursorMachine.url = topic_url
    run_state_machine_as_test(
        CursorMachine,
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
