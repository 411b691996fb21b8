"""A hundred ledgers written at once, and half of them deleted: how much the disk must write, and what is freed."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mledger.bookie.client.client import BookKeeper
from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.ledgers.writer import LedgerWriter
from mledger.bookie.server.process.garbage import GRACE_S
from mledger.bookie.server.storage.directories.journal_files import RESERVE
from mledger.metastore.url import open_store
from tests.faults.checker import HistoryBroken, Kind, Violation
from tests.faults.soak.measurement import bytes_written
from tests.faults.soak.progress import Progress
from tests.faults.soak.report import Row, mib
from tests.faults.soak.world import SoakCluster, disk_used, running
from tests.support.aio import run

LEDGERS, REPLICAS = 100, 3
SIZE, BATCH = 1024, 10
FRAME = 64
"""Bytes of a stored entry besides its payload: frame head, master key, ids, length and digest."""
MOST_AMPLIFICATION = 2.5
MOST_EXTRA = 0.2
GIVEN_BACK_S = GRACE_S + 120.0
"""How long to wait for the space of deleted ledgers, in seconds.

A collection every 20 s finds that a ledger has no metadata, deletes it once the grace period is over, and then writes
the live data of half-empty files again.
"""
ARGUMENTS = ("--min-free-mb", "64", "--session-timeout", "4")
_PAGE = 2000
_RUN_S = 1800.0


@dataclass
class Space:
    """Figures; sizes in bytes."""

    payload: int
    write_seconds: float = 0.0
    written: list[int] = field(default_factory=list)  # per bookie
    live: int = 0  # per bookie, after the deletion
    used_before: list[int] = field(default_factory=list)
    used_after: list[int] = field(default_factory=list)
    given_back_s: float = 0.0  # after the deletion

    @property
    def amplification(self) -> float:
        """Bytes to disk per byte of payload and replica."""
        return sum(self.written) / (self.payload * REPLICAS)

    @property
    def extra(self) -> float:
        """By how much of its live bytes the fullest bookie uses more."""
        return max(self.used_after) / self.live - 1


def run_space(where: Path | None, *, payload_mb: int) -> Space:
    """Write so many MiB of payload to a hundred ledgers at once, and delete every other one."""
    rounds = payload_mb * (1 << 20) // (LEDGERS * BATCH * SIZE)
    done = Space(rounds * LEDGERS * BATCH * SIZE)
    with running(where, bookies=REPLICAS, arguments=ARGUMENTS) as world:
        run(_fill_and_delete(world, rounds, done, Progress("space")), timeout=_RUN_S)
    return done


async def _fill_and_delete(world: SoakCluster, rounds: int, done: Space, progress: Progress) -> None:
    pids = [bookie.pid for bookie in world.bookies]
    async with await open_store(world.url) as store:
        client = BookKeeper(store, ClientConfig())
        writers = [await client.create_ledger(REPLICAS, REPLICAS, 2) for _ in range(LEDGERS)]
        before, begun = [bytes_written(pid) for pid in pids], time.monotonic()
        for number in range(rounds):
            await asyncio.gather(*(writer.append(_batch(writer, number)) for writer in writers))
            progress.step(f"{mib(number * LEDGERS * BATCH * SIZE)} of {mib(done.payload)} written")
        await asyncio.gather(*(writer.close() for writer in writers))
        done.write_seconds = time.monotonic() - begun
        done.written = [bytes_written(pid) - old for pid, old in zip(pids, before, strict=True)]
        done.used_before = _used(world)
        kept = writers[1::2]
        done.live = sum(writer.length // SIZE * (SIZE + FRAME) for writer in kept)
        await asyncio.gather(*(client.delete_ledger(writer.ledger_id) for writer in writers[::2]))
        deleted = time.monotonic()
        while done.given_back_s < GIVEN_BACK_S:
            await asyncio.sleep(1.0)
            done.given_back_s = time.monotonic() - deleted
            done.used_after = await asyncio.to_thread(_used, world)
            used = mib(max(done.used_after))
            progress.step(f"{done.given_back_s:.0f} s after half was deleted: {used} used, {mib(done.live)} live")
            if done.extra <= MOST_EXTRA:
                break
        progress.step("reading back what is left", always=True)
        await _read_back(client, kept, rounds * BATCH)
        await client.close()


def _batch(writer: LedgerWriter, number: int) -> list[bytes]:
    return [_payload(writer.ledger_id, entry) for entry in range(number * BATCH, (number + 1) * BATCH)]


def _payload(ledger_id: int, entry: int) -> bytes:
    return (b"%d:%d " % (ledger_id, entry)).ljust(SIZE, b"x")


def _used(world: SoakCluster) -> list[int]:
    """Bytes that each bookie uses, without what it keeps reserved for the time when its disk is full."""
    return [disk_used(bookie.directory) - _reserved(bookie.directory) for bookie in world.bookies]


def _reserved(directory: Path) -> int:
    reserves = (*directory.glob("reserve"), *directory.rglob(RESERVE))
    return sum(path.stat().st_blocks * 512 for path in reserves)


async def _read_back(client: BookKeeper, writers: Sequence[LedgerWriter], count: int) -> None:
    violations = []
    for writer in writers:
        reader = await client.open_ledger_no_recovery(writer.ledger_id)
        if reader.last_entry != count - 1:
            violations.append(Violation(Kind.LOST, f"ledger {writer.ledger_id} ends at {reader.last_entry}"))
        for first in range(0, count, _PAGE):
            last = min(first + _PAGE, count) - 1
            wanted = [_payload(writer.ledger_id, entry) for entry in range(first, last + 1)]
            if await reader.read(first, last) != wanted:
                violations.append(Violation(Kind.ALTERED, f"ledger {writer.ledger_id}, entries {first} to {last}"))
    if violations:
        raise HistoryBroken(violations)


def space_rows(done: Space) -> tuple[list[Row], list[str]]:
    """The figures, and those that do not hold."""
    bad = []
    if done.amplification > MOST_AMPLIFICATION:
        bad.append(f"write amplification {done.amplification:.2f}")
    if done.extra > MOST_EXTRA:
        seconds = f"{done.given_back_s:.0f} s"
        bad.append(f"{seconds} after the deletion a bookie uses {done.extra:.0%} more than its live bytes")
    used = ", ".join(mib(each) for each in done.used_after)
    rate = done.payload / done.write_seconds
    return [
        (
            f"payload of {LEDGERS} ledgers written at once",
            f"{mib(done.payload)}, {mib(rate)} a second",
            "",
        ),
        ("bytes to disk for each byte of payload and copy, journal included", f"{done.amplification:.2f}", "≤ 2.5"),
        (
            "disk of each bookie, without its reserves, before half of the ledgers was deleted",
            mib(max(done.used_before)),
            "",
        ),
        ("live bytes of each bookie afterwards", mib(done.live), ""),
        (
            f"disk of each bookie, without its reserves, {done.given_back_s:.0f} s later",
            f"{used} ({done.extra:+.1%})",
            f"≤ 20 % over the live bytes within {GIVEN_BACK_S:g} s",
        ),
    ], bad
