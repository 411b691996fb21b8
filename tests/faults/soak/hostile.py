"""Every fault in a seeded order under load, each one alone; the history is compared after each round of all."""

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.aftermath import ComparedCounts
from tests.faults.checker import HistoryBroken
from tests.faults.soak.damage import TMPFS_MB, fill_disk, flip_in_index, flip_in_stored_entries, tear_journal
from tests.faults.soak.fault_targets import LONG, Pace, Stage
from tests.faults.soak.progress import Progress
from tests.faults.soak.proxy import LinkState, Proxies
from tests.faults.soak.report import Row, mib
from tests.faults.soak.world import disk_used, running
from tests.support.bookies.processes import SMALL, BookieFailed

DAY_MS = 24 * 3600 * 1000
FLIPS = 4
_STORAGE = re.compile(r" event=(serving|storage_open|stopping|failed|journal_\w+|space_reclaimed) ")
ARGUMENTS = (*SMALL, "--gc-interval", "5")

Fault = Callable[[Stage], None]


def owner_killed(stage: Stage) -> None:
    """kill -9 of the owner."""
    stage.kill_owner()
    stage.reopen()


def owner_frozen(stage: Stage) -> None:
    """SIGSTOP of the owner beyond every time-out. It continues, or finds that it may not."""
    stage.owner.freeze()
    try:
        stage.owner.for_seconds(stage.pace.beyond_s)
    finally:
        stage.owner.thaw()
    stage.hold(stage.pace.a_while_s, may_end=True)


def owner_frozen_and_followed(stage: Stage) -> None:
    """SIGSTOP of the owner. Another one takes over, and the first wakes up: it must not add anything."""
    stage.owner.freeze()
    before = stage.take_over()
    try:
        stage.hold(stage.pace.a_while_s)
        before.thaw()
        stage.must_be_fenced(before)
        stage.hold(stage.pace.a_while_s / 4)
    finally:
        before.close()


def owner_followed(stage: Stage) -> None:
    """Another owner takes over while the first is at work."""
    before = stage.take_over()
    try:
        stage.must_be_fenced(before)
        stage.hold(stage.pace.a_while_s / 4)
    finally:
        before.close()


def owner_session_expired(stage: Stage) -> None:
    """The owner cannot reach ZooKeeper until its session has expired."""
    with stage.link(stage.sessions, LinkState.HALF_OPEN):
        stage.hold(stage.pace.beyond_s, may_end=True)


def owner_cut_from_zookeeper(stage: Stage) -> None:
    """The owner's connections to ZooKeeper are reset for a moment. Its session survives."""
    with stage.link(stage.sessions, LinkState.CUT):
        stage.hold(stage.pace.session_s / 4, may_end=True)


def clock_steps(stage: Stage) -> None:
    """The owner's clock steps a day forward, two back, and one forward again."""
    for ms in (DAY_MS, -2 * DAY_MS, DAY_MS):
        stage.step_clock(ms)
        stage.hold(stage.pace.a_while_s / 2)


def bookie_killed(stage: Stage) -> None:
    """kill -9 of a bookie."""
    number = stage.pick()
    stage.world.bookies.kill(number)
    stage.hold(stage.pace.a_while_s)
    stage.start_bookie(number)


def bookie_frozen(stage: Stage) -> None:
    """SIGSTOP of a bookie beyond every time-out, also that of its session."""
    number = stage.pick()
    stage.world.bookies.freeze(number)
    try:
        stage.hold(stage.pace.beyond_s)
    finally:
        stage.world.bookies.thaw(number)


def journal_torn(stage: Stage) -> None:
    """A bookie dies with half of an unacknowledged record written."""
    number = stage.pick_with_entries()
    stage.world.bookies.kill(number)
    tear_journal(stage.world.bookies[number].directory)
    stage.hold(stage.pace.a_while_s / 2)
    stage.start_bookie(number)


def entries_flipped(stage: Stage) -> None:
    """Bytes of stored entries change under a running bookie: what it returns is right, or it returns nothing."""
    number = stage.pick_with_entries()
    stage.kill_owner()
    flips = flip_in_stored_entries(stage.world.bookies[number].directory, stage.rng, FLIPS)
    stage.saw["bytes of stored entries changed under a running bookie"] += len(flips)
    try:
        stage.saw["copies that failed their digest, with a good one read instead"] += stage.check(damaged=True).bad
    finally:
        for flip in flips:
            flip.back()
    stage.restart_bookie(number)  # it has damaged entries in memory
    stage.reopen()


def journal_flipped(stage: Stage) -> None:
    """A byte of a bookie's journal changes while it is down: it starts with what it has, or refuses with an error."""
    number = stage.pick_with_entries()
    bookie = stage.world.bookies[number]
    bookie.kill()
    flips = flip_in_stored_entries(bookie.directory, stage.rng, 1)
    _start_damaged(stage, number, lambda: [flip.back() for flip in flips])


def index_flipped(stage: Stage) -> None:
    """A byte of a bookie's RocksDB changes while it is down."""
    number = stage.pick_with_entries()
    bookie = stage.world.bookies[number]
    bookie.stop()
    flips = flip_in_index(bookie.directory, stage.rng)
    _start_damaged(stage, number, lambda: [flip.back() for flip in flips])


def _start_damaged(stage: Stage, number: int, mend: Callable[[], object]) -> None:
    bookie = stage.world.bookies[number]
    try:
        stage.start_bookie(number)
    except BookieFailed as refused:
        if "event=failed" not in refused.log.splitlines()[-1]:
            raise
        stage.saw["a bookie refused to start on damaged files"] += 1
    stage.hold(stage.pace.a_while_s)
    if bookie.running:
        stage.saw["a bookie served with damaged files"] += 1
        bookie.kill()
    mend()
    stage.start_bookie(number)


def disk_full(stage: Stage) -> None:
    """A bookie's disk is completely full, and then has space again."""
    number = len(stage.world.bookies) - 1
    bookie = stage.world.bookies[number]
    ballast = fill_disk(bookie.directory)
    try:
        stage.hold(stage.pace.beyond_s)
    finally:
        ballast.unlink()
    stage.hold(stage.pace.a_while_s)  # one that ends on its full disk may be about to
    if bookie.running:
        stage.saw["a bookie outlived its full disk"] += 1
    else:
        stage.saw["a bookie ended on its full disk"] += 1
        bookie.wait()
        stage.start_bookie(number)


def link_half_open(stage: Stage) -> None:
    """Nothing passes between the owner and a bookie, and neither is notified."""
    with stage.link([stage.links[stage.pick()]], LinkState.HALF_OPEN):
        stage.hold(stage.pace.beyond_s)


def link_deaf(stage: Stage) -> None:
    """A bookie receives everything, but its answers come too late."""
    with stage.link([stage.links[stage.pick()]], LinkState.DEAF):
        stage.hold(stage.pace.beyond_s)
    stage.hold(stage.pace.a_while_s / 2)


def link_slow(stage: Stage) -> None:
    """Every packet to and from a bookie takes long."""
    with stage.link([stage.links[stage.pick()]], LinkState.SLOW):
        stage.hold(stage.pace.a_while_s)


def link_cut(stage: Stage) -> None:
    """Connections to a bookie are reset again and again."""
    number = stage.pick()
    for _ in range(3):
        with stage.link([stage.links[number]], LinkState.CUT):
            stage.hold(stage.pace.a_while_s / 4)
        stage.hold(stage.pace.a_while_s / 4)


def leader_killed(stage: Stage) -> None:
    """kill -9 of ZooKeeper's leader."""
    leader = stage.leader()
    leader.kill()
    stage.hold(stage.pace.a_while_s, may_end=True)
    leader.restart()
    stage.hold(stage.pace.a_while_s / 2, may_end=True)


def leader_frozen(stage: Stage) -> None:
    """SIGSTOP of ZooKeeper's leader beyond every time-out."""
    leader = stage.leader()
    leader.freeze()
    try:
        stage.hold(stage.pace.beyond_s, may_end=True)
    finally:
        leader.thaw()
    stage.hold(stage.pace.a_while_s / 2, may_end=True)


FAULTS: tuple[Fault, ...] = (
    owner_killed,
    owner_frozen,
    owner_frozen_and_followed,
    owner_followed,
    owner_session_expired,
    owner_cut_from_zookeeper,
    clock_steps,
    bookie_killed,
    bookie_frozen,
    journal_torn,
    entries_flipped,
    journal_flipped,
    index_flipped,
    disk_full,
    link_half_open,
    link_deaf,
    link_slow,
    link_cut,
    leader_killed,
    leader_frozen,
)
OF_SESSIONS: frozenset[Fault] = frozenset(
    {owner_frozen, owner_session_expired, leader_killed, leader_frozen, owner_cut_from_zookeeper}
)
"""Faults of sessions: an owner may find that it is no longer the owner, and end."""


@dataclass
class HostileSummary:
    """What was done, and what was compared afterwards."""

    faults: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    saw: Counter[str] = field(default_factory=Counter)
    left_out: tuple[str, ...] = ()
    rounds: int = 0
    owners: int = 0
    seconds: float = 0.0
    most_disk: int = 0
    checked: ComparedCounts = field(default_factory=ComparedCounts)


def run_hostile(
    where: Path | None, *, rounds: int, seed: int, faults: tuple[Fault, ...] = FAULTS, pace: Pace = LONG
) -> HostileSummary:
    """Each fault once a round, in a random order. HistoryBroken, OwnerEnded or TimeoutError if one does harm."""
    done, progress = HostileSummary(), Progress("hostile")
    order = random.Random(seed)
    arguments = (*ARGUMENTS, "--session-timeout", str(pace.session_s))
    small_disk_mb = TMPFS_MB if disk_full in faults else 0
    with running(where, arguments=arguments, small_disk_mb=small_disk_mb) as world:
        if disk_full in faults and not world.has_small_disk:
            done.left_out = ("disk_full: no file system can be mounted here",)
            faults = tuple(fault for fault in faults if fault is not disk_full)
        proxies = Proxies()
        stage = Stage(world, proxies, seed, pace)
        try:
            for number in range(rounds):
                for fault in order.sample(faults, len(faults)):
                    progress.step(f"round {number + 1} of {rounds}: {fault.__name__}", always=True)
                    _do(stage, fault)
                    done.faults[fault.__name__] += 1
                    done.most_disk = max(done.most_disk, disk_used(world.directory / "bookies"))
                _compare(stage, done)
        finally:
            stage.close()
            proxies.close()
        done.rounds, done.owners, done.ended = rounds, len(stage.rounds.history.owners), stage.ended
        done.saw = stage.saw
    done.seconds = progress.seconds
    return done


def _do(stage: Stage, fault: Fault) -> None:
    """One fault, and back to work. An error carries the fault's name."""
    try:
        fault(stage)
        stage.settle(of_session=fault in OF_SESSIONS)
    except Exception as error:
        error.add_note(f"during or after the fault {fault.__name__}: {(fault.__doc__ or '').strip()}")
        raise
    for number, bookie in enumerate(stage.world.bookies):
        if not bookie.running:
            raise BookieFailed(bookie.wait(), f"after {fault.__name__}, bookie {number}: {bookie.log()[-4000:]}")


def _compare(stage: Stage, done: HostileSummary) -> None:
    stage.kill_owner()
    try:
        checked = stage.check()
    except HistoryBroken as broken:
        for bookie in stage.world.bookies:
            broken.add_note(f"{bookie.bookie_id}:\n{storage_events(bookie.log())}")
        raise
    done.checked.entries += checked.entries
    done.checked.copies += checked.copies
    done.checked.ledgers += checked.ledgers
    done.checked.acknowledged, done.checked.backlogs = checked.acknowledged, checked.backlogs
    stage.reopen()


def storage_events(log: str) -> str:
    """The lines of a bookie's log that say when it started and ended, and what it did to its journal's files."""
    return "\n".join(line for line in log.splitlines() if _STORAGE.search(line))


def hostile_rows(done: HostileSummary) -> tuple[list[Row], list[str]]:
    """The figures of a run in which everything held. Names faults that could not be tried as not holding."""
    faults = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in sorted(done.faults.items()))
    ended = ", ".join(f"{name} {count}" for name, count in sorted(done.ended.items())) or "none"
    return [
        ("faults under load, one at a time", faults, ""),
        ("owners, of which ended by themselves", f"{done.owners}; {ended}", "only of sessions and successors"),
        ("what faults led to", ", ".join(f"{name} {count}" for name, count in sorted(done.saw.items())), ""),
        ("entries acknowledged to an owner", f"{done.checked.acknowledged:,}", ""),
        (
            f"entries compared after each of {done.rounds} rounds",
            f"{done.checked.entries:,}, in {done.checked.copies:,} copies",
            "nothing lost, double, moved or orphaned; backlogs exact",
        ),
        ("disk of all bookies, most", mib(done.most_disk), "bounded by trim"),
        ("time", f"{done.seconds:,.0f} s", ""),
    ], list(done.left_out)
