"""An owner killed with -9 at any step that changes the cluster loses no acknowledged entry, leaves no orphan (R10)."""

import asyncio
import json
import sys
from subprocess import PIPE

import pytest

import mledger
from tests.support.aio import run
from tests.support.bookies.processes import ROOT
from tests.support.forked_python import ForkedPython
from tests.support.owners.owner import ACKED_ALONE, APPENDS, BATCH, OWNER_CONFIG
from tests.support.topics import assert_nothing_orphaned, everything, payloads, recount

POINTS = [
    ("create ledger", 1),
    ("ledger created, not listed", 1),
    ("list ledger", 1),
    ("ledger listed", 1),
    ("create ledger", 2),
    ("ledger created, not listed", 2),
    ("close ledger", 1),
    ("list ledger", 2),
    ("ledger listed", 2),
    ("ledger created, not listed", 4),
    ("name cursor ledger", 1),
    ("cursor ledger named", 1),
    ("create ledger", 5),
    ("name cursor ledger", 2),
    ("cursor ledger named", 2),
    ("delete ledger", 1),
    ("ledger deleted, still recorded", 1),
    ("move cursors", 1),
    ("drop ledgers", 1),
    ("ledgers dropped", 1),
    ("delete ledger", 3),
    ("ledger deleted, still recorded", 4),
    ("delete cursor", 1),
    ("never", 1),
]


async def owner_until_death(url, topic, step, nth):
    """What the owner printed before it died by SIGKILL."""
    command = [sys.executable, "-m", "tests.support.owners.owner", url, topic, step, str(nth)]
    process = ForkedPython(command, cwd=ROOT, stdout=PIPE, stderr=PIPE)
    out, err = await asyncio.to_thread(process.communicate)
    assert process.returncode == -9, err.decode()
    known = [json.loads(line) for line in out.splitlines()]
    return {key: [each[key] for each in known if key in each] for key in {key for each in known for key in each}}


@pytest.mark.parametrize(("step", "nth"), POINTS, ids=lambda value: str(value).replace(" ", "_"))
def test_the_next_owner_finds_everything_and_cleans_up(topic_url, topic, step, nth):
    async def main():
        known = await owner_until_death(topic_url, topic, step, nth)
        assert ("deleted" in known) == (step == "never"), f"the owner never came to {step}, time {nth}"
        async with mledger.open_cluster(topic_url, config=OWNER_CONFIG) as cluster:
            opened = await cluster.open_topic(topic, take_over=True)
            await opened.initialized()
            found = await everything(opened)
            appended = known.get("appended", [0])[-1]
            attempted = min(appended + BATCH, APPENDS * BATCH)
            assert any(found == payloads(last)[-len(found) or last :] for last in range(appended, attempted + 1))
            assert len(found) >= appended or len(known.get("acknowledged", [])) == ACKED_ALONE - 1

            wanted = {"one", "two"} if "cursors" in known else set()
            gone = {"two"} if step == "delete cursor" or "deleted" in known else set()
            assert wanted - gone <= set(opened.cursors) <= {"one", "two"}
            for name in opened.cursors:
                cursor = await opened.open_cursor(name)
                assert cursor.backlog == await recount(opened, cursor)
                assert name not in known.get("cleared", []) or cursor.backlog == 0
            if "one" in opened.cursors:
                cursor = await opened.open_cursor("one")
                assert all(cursor.is_deleted(mledger.Position(*each)) for each in known.get("acknowledged", []))

            await opened.append([b"on"])
            assert (await everything(opened))[-1] == b"on"
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())


def test_two_crashes_in_a_row_leave_no_more_than_one(topic_url, topic):
    async def main():
        for step, nth in (("ledger created, not listed", 2), ("list ledger", 1), ("drop ledgers", 1)):
            await owner_until_death(topic_url, topic, step, nth)
        async with mledger.open_cluster(topic_url, config=OWNER_CONFIG) as cluster:
            opened = await cluster.open_topic(topic, take_over=True)
            await opened.initialized()
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())
