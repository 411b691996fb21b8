"""Each operation of an owner, killed with -9 at every step, one after the other, is finished on restart (R9, R10).

The steps are not listed here: the operation is repeated, killed one step later each time, until it completes. A step
that is added to the code is killed too.
"""

import asyncio
import json
import sys
from subprocess import PIPE

import pytest

import mledger
from mledger.ledgers.ledger_factory import LedgerFactory
from tests.support.aio import run
from tests.support.bookies.processes import ROOT
from tests.support.forked_python import ForkedPython
from tests.support.owners.operations import ACKED_BY_ONE, ACKED_BY_TWO, ENTRIES, MORE, OPERATIONS
from tests.support.topics import (
    KEEP,
    assert_nothing_orphaned,
    everything,
    fill,
    managed_ledger_of,
    payloads,
    recount,
)

MOST_STEPS = 60
MUST_STEP = {
    "open": {"list ledger", "finish deletion", "leftover claimed", "leftover deleted, still recorded", "move cursors"},
    "trim": {"drop ledgers", "ledgers dropped", "delete ledger", "ledger deleted, still recorded"},
    "truncate": {"move cursors", "drop ledgers", "ledgers dropped", "delete ledger", "ledger deleted, still recorded"},
    "terminate": {"close ledger", "terminate", "terminated"},
    "roll-over": {"create ledger", "ledger created, not listed", "close ledger", "list ledger", "ledger listed"},
    "acknowledge": {"create ledger", "name cursor ledger", "cursor ledger named", "delete ledger"},
    "create-cursor": {"create cursor"},
    "delete-cursor": {"delete cursor", "cursor deleted", "delete ledger", "ledger deleted, still recorded"},
    "close": {"close ledger", "write cursor record", "delete ledger"},
    "delete-topic": {"delete cursors", "delete topic", "topic deleted", "finish deletion"},
}


class Operator:
    """The process that forks the owners."""

    def __init__(self, process):
        self._process = process

    async def run(self, operation, topic, nth):
        """The steps taken: killed at the last one, or "done"."""
        self._process.stdin.write(f"{operation} {topic} {nth}\n")
        self._process.stdin.flush()
        steps = json.loads(await asyncio.to_thread(self._process.stdout.readline))
        assert not any(step.startswith("failed") for step in steps), steps
        return steps


async def with_operator(url, test):
    command = [sys.executable, "-m", "tests.support.owners.operations", url]
    process = ForkedPython(command, cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True)
    try:
        async with mledger.open_cluster(url, config=KEEP) as cluster:
            await test(Operator(process), cluster)
    finally:
        await asyncio.to_thread(process.communicate)


async def set_up(cluster, topic):
    """A topic as a killed owner left it: three ledgers, one of them open; cursor ledgers; some half made or deleted."""
    opened = await cluster.create_topic(topic)
    positions = await fill(opened, ENTRIES)
    one, two = await opened.open_cursor("one"), await opened.open_cursor("two")
    await one.acknowledge([positions[number] for number in ACKED_BY_ONE])
    await two.acknowledge_cumulative(positions[ACKED_BY_TWO])
    await opened.abandon()
    store = cluster._store
    factory = LedgerFactory(cluster._bookkeeper, store, opened.name, KEEP)
    await factory.create_cursor_ledger("one")
    dropped = await factory.create_data_ledger(None)
    await store.multi([factory.listed(dropped.ledger_id), factory.deletion(dropped.ledger_id)])
    return positions


async def check(cluster, operation, topic, positions):
    """Assert that the next owner finds every acknowledged entry, an exact backlog, and no orphan."""
    all_payloads = payloads(ENTRIES + MORE)
    try:
        opened = await cluster.open_topic(topic, take_over=True)
    except mledger.TopicNotFound:
        assert operation == "delete-topic"
        return
    await opened.initialized()
    found = await everything(opened)
    assert any(found == all_payloads[first:last] for first in (0, 10, 20, 25) for last in (25, 28))
    if operation not in ("open", "trim", "truncate", "delete-topic"):
        assert found[:ENTRIES] == all_payloads[:ENTRIES]
    cursors = opened.open_cursors
    for cursor in cursors.values():
        assert cursor.backlog == await recount(opened, cursor)
    if operation not in ("delete-topic", "delete-cursor"):
        assert {"one", "two"} <= cursors.keys()
    if "one" in cursors:
        assert all(cursors["one"].is_deleted(positions[number]) for number in ACKED_BY_ONE)
    if "two" in cursors:
        assert cursors["two"].mark_delete >= positions[ACKED_BY_TWO]
    await opened.close()
    await assert_nothing_orphaned(cluster.metadata.url, opened.name)


async def finish(cluster, topic):
    """Delete the topic. Whoever opens any topic next finishes an interrupted deletion."""
    try:
        await cluster.delete_topic(topic, take_over=True)
    except mledger.TopicNotFound:
        other = await cluster.create_topic(f"{topic}-other")
        await other.initialized()
        await other.close()
    await assert_nothing_orphaned(cluster.metadata.url, managed_ledger_of(topic))


@pytest.mark.parametrize("operation", ["open", *OPERATIONS, "delete-topic"])
def test_an_operation_killed_at_each_of_its_steps_is_finished_by_the_next(topic_url, topic, operation):
    async def each_step(operator, cluster):
        stepped = set()
        for nth in range(1, MOST_STEPS):
            scene = f"{topic}-{nth}"
            positions = await set_up(cluster, scene)
            steps = await operator.run(operation, scene, nth)
            stepped |= set(steps)
            await check(cluster, operation, scene, positions)
            await finish(cluster, scene)
            if steps[-1] == "done":
                break
        else:
            raise AssertionError(f"{operation} takes more than {MOST_STEPS} steps")
        assert stepped >= MUST_STEP[operation], f"steps of {operation}: {sorted(stepped)}"

    run(with_operator(topic_url, each_step))
