"""A steady load for minutes, with rollover and trim: memory and disk stay constant, and nothing stalls."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.aftermath import ComparedCounts, check_everything
from tests.faults.owner import OwnerLoad
from tests.faults.recorder import OwnerProcess
from tests.faults.rounds import Rounds
from tests.faults.soak.measurement import DiskProbe, Sampler, Stall, cpu_waited, slope_a_minute, unexplained
from tests.faults.soak.progress import Progress
from tests.faults.soak.report import Row, mib
from tests.faults.soak.world import SoakCluster, disk_used, running
from tests.support.aio import run

SIZE = 1024
STALL_S = 0.25
MOST_GROWTH = 1 << 20
"""Bytes per minute by which a process may grow."""
WARM_UP = 0.5
"""Share of the run after which memory is measured: caches and memtables fill before."""
ARGUMENTS = ("--min-free-mb", "64", "--session-timeout", "4")
_SAMPLE_S = 2.0


@dataclass
class Steady:
    """Figures of a steady run; memory and disk in bytes."""

    rate: int
    seconds: float = 0.0
    acknowledged: int = 0
    ledgers_made: int = 0
    latencies: list[float] = field(default_factory=list)
    slopes: dict[str, float] = field(default_factory=dict)
    most_memory: dict[str, float] = field(default_factory=dict)
    most_disk: float = 0.0
    disk_slope: float = 0.0
    stalls: list[Stall] = field(default_factory=list)
    unexplained: list[Stall] = field(default_factory=list)
    longest_sync: float = 0.0
    cpu_waited: float = 0.0
    checked: ComparedCounts = field(default_factory=ComparedCounts)


def run_steady(where: Path | None, *, minutes: float, rate: int) -> Steady:
    """Append `rate` entries per second for so many minutes. HistoryBroken if anything is lost."""
    done, progress = Steady(rate), Progress("steady")
    load = OwnerLoad(rate=rate, size=SIZE, trim=True, entries_per_ledger=50_000, cursor_flushes=1.0)
    with running(where, arguments=ARGUMENTS) as world:
        rounds = Rounds(world.url, world.bookies, world.directory)
        probe = DiskProbe(world.directory)
        probe.start()
        owner = rounds.owner(load=load)
        try:
            owner.until(lambda seen: seen.acked_entries > rate)
            _measure(world, owner, 60 * minutes, done, progress)
            owner.kill()
        finally:
            owner.close()
            probe.stop()
        done.unexplained = unexplained(done.stalls, probe.syncs)
        done.longest_sync = max(sync.seconds for sync in probe.syncs)
        known = rounds.history.owner
        done.latencies, done.ledgers_made = known.latencies, len({ledger for _, ledger, _, _ in known.acked})
        done.checked = run(check_everything(rounds.history, world.url, config=load.config, size=SIZE), timeout=600)
    return done


def _measure(world: SoakCluster, owner: OwnerProcess, seconds: float, done: Steady, progress: Progress) -> None:
    sampler = Sampler(
        {
            "owner": owner.process.pid,
            **{f"bookie {number}": bookie.pid for number, bookie in enumerate(world.bookies)},
            **{f"ZooKeeper {number}": server.pid for number, server in enumerate(world.zookeeper.servers)},
        },
        {"bookies": lambda: disk_used(world.directory / "bookies")},
    )
    begun, first, seen = time.monotonic(), owner.history.owner.acked_entries, len(owner.history.owner.latencies)
    following, waited = begun, cpu_waited()
    while (now := time.monotonic()) - begun < seconds:
        sampler.sample(now - begun)
        following += _SAMPLE_S
        while (now := time.monotonic()) < following:
            owner.for_seconds(min(0.05, max(0.0, following - now)))
            seen = _look_for_stalls(owner, seen, done)
        done.acknowledged = owner.history.owner.acked_entries - first
        memory, disk = sampler.memory["owner"][-1][1], sampler.disk["bookies"][-1][1]
        stalls = f"{len(done.stalls)} stalls" if done.stalls else "no stall"
        progress.step(f"{done.acknowledged:,} acknowledged, owner {mib(memory)}, disk {mib(disk)}, {stalls}")
    done.seconds, done.cpu_waited = time.monotonic() - begun, cpu_waited() - waited
    warm = WARM_UP * done.seconds
    done.slopes = {name: slope_a_minute([s for s in got if s[0] >= warm]) for name, got in sampler.memory.items()}
    done.most_memory = {name: max(value for _, value in got) for name, got in sampler.memory.items()}
    disk = sampler.disk["bookies"]
    done.most_disk, done.disk_slope = max(v for _, v in disk), slope_a_minute([s for s in disk if s[0] >= warm])


def _look_for_stalls(owner: OwnerProcess, seen: int, done: Steady) -> int:
    """Note the slow batches acknowledged since."""
    latencies, now = owner.history.owner.latencies, time.time()
    done.stalls += [Stall(now, seconds) for seconds in latencies[seen:] if seconds > STALL_S]
    return len(latencies)


def steady_rows(done: Steady) -> tuple[list[Row], list[str]]:
    """The figures, and those that do not hold."""
    ordered = sorted(done.latencies)
    at = [f"{1000 * ordered[int(share * (len(ordered) - 1))]:.1f}" for share in (0.5, 0.99, 0.999, 1.0)]
    ours = {name: slope for name, slope in done.slopes.items() if not name.startswith("ZooKeeper")}
    bad = [f"{name} grows by {mib(slope)} a minute" for name, slope in ours.items() if slope >= MOST_GROWTH]
    if done.unexplained:
        bad.append(f"{len(done.unexplained)} stalls over {STALL_S:g} s that no sync of a plain file explains")
    if done.acknowledged < 0.99 * done.rate * done.seconds:
        bad.append(f"{done.acknowledged / done.seconds:,.0f} entries a second instead of {done.rate:,}")
    groups = {name: [key for key in done.slopes if key.startswith(name)] for name in ("owner", "bookie", "ZooKeeper")}
    rows: list[Row] = [
        (
            f"entries of {SIZE} bytes a second, for how long",
            f"{done.acknowledged / done.seconds:,.0f}, {done.seconds / 60:.1f} minutes",
            f"{done.rate:,}",
        ),
        ("ledgers filled, of which most were trimmed meanwhile", f"{done.ledgers_made}", ""),
    ]
    for name, keys in groups.items():
        steepest, most = max(done.slopes[key] for key in keys), max(done.most_memory[key] for key in keys)
        several = f" (the steepest of {len(keys)})" if len(keys) > 1 else ""
        what = f"memory of the {name}{several}: growth a minute, most"
        wanted = "within its Java heap of 128 MiB" if name == "ZooKeeper" else "< 1 MiB a minute"
        rows.append((what, f"{mib(steepest)}, {mib(most)}", wanted))
    return [
        *rows,
        ("disk of all bookies: most, growth a minute", f"{mib(done.most_disk)}, {mib(done.disk_slope)}", "bounded"),
        ("a batch of 100 acknowledged: median, 99 %, 99.9 %, longest", f"{', '.join(at)} ms", ""),
        (
            "… over 250 ms, of which a plain file's sync beside it does not explain",
            f"{len(done.stalls)}, {len(done.unexplained)}",
            "0 unexplained",
        ),
        ("longest sync of a plain file beside it", f"{1000 * done.longest_sync:.0f} ms", ""),
        ("share of the time in which some process waited for a core", f"{done.cpu_waited / done.seconds:.0%}", ""),
        ("entries compared afterwards", f"{done.checked.entries:,}", "nothing lost"),
    ], bad
