"""Carries out one operation of an owner in a process that kills itself with SIGKILL at its NTH step.

`python -m tests.support.owners.operations URL` imports everything once and forks for each line `OPERATION TOPIC NTH` on
stdin. It prints the steps before the kill as JSON, with "done" at the end if the operation completed. Steps count from
the beginning of the operation.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace

import mledger
from mledger.topics import deletion
from tests.support.topics import CONFIG, KEEP, fill

ENTRIES = 25
MORE = 3
ACKED_BY_ONE = (1, 3, 12)
ACKED_BY_TWO = 19
SWITCHING = replace(KEEP, metadata_max_entries_per_ledger=2)


class KillingSteps:
    """A step hook that counts from the call of `arm`, records the steps, and kills the process at the last."""

    def __init__(self, nth: int) -> None:
        self._left, self._armed = nth, False
        self.taken: list[str] = []

    def __call__(self, step: str) -> None:
        if not self._armed:
            return
        self.taken.append(step)
        self._left -= 1
        if not self._left:
            self.tell()
            os.kill(os.getpid(), signal.SIGKILL)

    def arm(self) -> None:
        """Begin the operation."""
        self._armed = True

    def tell(self) -> None:
        """Print the steps that were taken."""
        sys.stdout.write(json.dumps(self.taken) + "\n")
        sys.stdout.flush()


Operation = Callable[[mledger.Cluster, mledger.ManagedLedger, KillingSteps], Awaitable[object]]


async def _trim(_: mledger.Cluster, topic: mledger.ManagedLedger, __: KillingSteps) -> None:
    positions = [
        mledger.Position(ledger.ledger_id, entry) for ledger in topic.ledgers for entry in range(ledger.entries)
    ]
    for cursor in topic.open_cursors.values():
        await cursor.acknowledge_cumulative(positions[ACKED_BY_TWO + 2])
    await topic.trim()


async def _acknowledge(_: mledger.Cluster, topic: mledger.ManagedLedger, __: KillingSteps) -> None:
    cursor = await topic.open_cursor("two")
    last = topic.last_confirmed
    for number in range(4):
        await cursor.acknowledge([mledger.Position(last.ledger_id, last.entry_id - number)])


async def _roll_over(_: mledger.Cluster, topic: mledger.ManagedLedger, __: KillingSteps) -> None:
    await fill(topic, MORE, ENTRIES)
    await topic.roll_over()


OPERATIONS: dict[str, tuple[mledger.ManagedLedgerConfig, Operation]] = {
    "trim": (CONFIG, _trim),
    "truncate": (KEEP, lambda _, topic, __: topic.truncate()),
    "terminate": (KEEP, lambda _, topic, __: topic.terminate()),
    "roll-over": (KEEP, _roll_over),
    "acknowledge": (SWITCHING, _acknowledge),
    "create-cursor": (KEEP, lambda _, topic, __: topic.open_cursor("three")),
    "delete-cursor": (KEEP, lambda _, topic, __: topic.delete_cursor("one")),
    "close": (KEEP, lambda _, topic, __: topic.close()),
}


async def operate(url: str, operation: str, topic: str, steps: KillingSteps) -> None:
    """Carry out the operation. Opening counts only if it is the operation."""
    if operation == "delete-topic":
        deletion.CURSORS_AT_ONCE = 1
        async with mledger.open_cluster(url, config=KEEP) as cluster:
            steps.arm()
            await cluster.delete_topic(topic, take_over=True, on_step=steps)
        return
    config, work = OPERATIONS.get(operation, (CONFIG, None))
    async with mledger.open_cluster(url, config=config) as cluster:
        if work is None:
            steps.arm()
        opened = await cluster.open_topic(topic, take_over=True, on_step=steps)
        await opened.initialized()
        if work is not None:
            steps.arm()
            await work(cluster, opened, steps)
        await opened._background.finish()


def _fork(url: str, operation: str, topic: str, nth: int) -> None:
    child = os.fork()
    if not child:
        steps = KillingSteps(nth)
        try:
            asyncio.run(operate(url, operation, topic, steps))
            steps.taken.append("done")
            steps.tell()
        except BaseException as error:
            sys.stdout.write(json.dumps([f"failed: {error!r}"]) + "\n")
            sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)


if __name__ == "__main__":
    for line in sys.stdin:
        name, topic_name, number = line.split()
        _fork(sys.argv[1], name, topic_name, int(number))
