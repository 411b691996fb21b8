"""Q8, by the system calls of a running bookie: write, sync of that descriptor, send; and two builds that break it."""

import asyncio
import sys

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from tests.support.aio import run
from tests.support.bookies.raw_bookie import RawBookieClient, entry
from tests.support.bookies.strace_order import COMMAND, find_violations, parse_trace

pytestmark = pytest.mark.strace

KEY = master_key(b"")
HONEST = (sys.executable, "-m", "mledger.bookie.server")
ENTRIES = {
    (ledger, number): entry(ledger, number, b"%d of %d" % (number, ledger)) for ledger in (1, 2) for number in range(40)
}


async def add_all(bookie):
    """Add the entries of each ledger over a connection of its own, some alone, some together."""

    async def add(ledger):
        async with RawBookieClient(bookie) as client:
            for first, last in ((0, 1), (1, 2), (2, 10), (10, 11), (11, 40)):
                client.send(b"".join(wire.encode_add(KEY, ENTRIES[ledger, number]) for number in range(first, last)))
                for _ in range(first, last):
                    assert (await client.response()).error == 0

    await asyncio.gather(add(1), add(2))


def trace(bookies, tmp_path, command):
    """The system calls of a bookie that receives the entries."""
    path = tmp_path / "trace"
    bookie = bookies.add(command=(*COMMAND, "-o", str(path), *command))
    bookie.start()
    run(add_all(bookie))
    assert bookie.stop() == 0
    with path.open() as lines:
        return parse_trace(lines)


def test_every_add_is_answered_after_a_sync_of_the_file_that_holds_it(bookies, tmp_path):
    assert find_violations(trace(bookies, tmp_path, HONEST), ENTRIES) == []


@pytest.mark.parametrize("fault", ["early", "wrong-file"])
def test_a_build_that_breaks_the_order_is_detected(bookies, tmp_path, fault):
    command = (sys.executable, "-m", "tests.support.bookies.broken_bookie", fault)
    violations = find_violations(trace(bookies, tmp_path, command), ENTRIES)
    assert len(violations) == len(ENTRIES)
    assert all("before its sync" in violation for violation in violations)
