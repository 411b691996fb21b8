"""Runs many seeds, on several processes."""

import contextlib
import gc
import itertools
import logging
import multiprocessing
import resource
import signal
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from tests.sim.draws import plan_schedule
from tests.sim.removed_fixes.catalogue import FIXES, without_any
from tests.sim.simulation import simulate

_HANGS_S = 60.0
_CHUNK = 20
_CHUNKS_A_PROCESS = 5
_WARM = 20


class Hangs(Exception):
    """One schedule has taken a minute of processor time."""


class Found(NamedTuple):
    """What one seed came to. `violation` is empty if everything held."""

    seed: int
    violation: str
    steps: int


def search(seeds: Iterable[int], processes: int, without: str = "") -> Iterator[Found]:
    """Run seeds, on so many processes; in any order. `without` names a fix that is taken out.

    What a simulation leaves is full of cycles. Collecting it costs more than a new process for every hundred seeds.
    Each begins with what `_warm_up` left here.
    """
    _warm_up()
    gc.collect()
    gc.freeze()
    fork = multiprocessing.get_context("fork")
    with fork.Pool(processes, _begin, maxtasksperchild=_CHUNKS_A_PROCESS) as pool:
        chunks = ((chunk, without) for chunk in _chunks(seeds))
        for found in pool.imap_unordered(_run, chunks):
            yield from found
        pool.close()
        pool.join()
    gc.unfreeze()


def cpu_s() -> float:
    """The processor time that this process and those that it has waited for have taken, in seconds."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def _chunks(seeds: Iterable[int]) -> Iterator[list[int]]:
    rest = iter(seeds)
    while chunk := list(itertools.islice(rest, _CHUNK)):
        yield chunk


@cache
def _warm_up() -> None:
    """Run some schedules, for the modules and caches that they fill, and for code that the interpreter adapts."""
    for seed in range(_WARM):
        simulate(plan_schedule(str(seed)))


def _begin() -> None:
    """Prepare a process of the pool. Whoever started it ends it, as well when it is interrupted."""
    gc.disable()
    logging.disable()  # nobody reads it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run(wanted: tuple[list[int], str]) -> list[Found]:
    seeds, without = wanted
    with contextlib.ExitStack() as stack:
        if without:
            stack.enter_context(without_any(without))
        return [_run_one(seed, without) for seed in seeds]


def _hangs(*_: object) -> None:
    raise Hangs


def _run_one(seed: int, without: str) -> Found:
    schedule = plan_schedule(str(seed))
    if without and not FIXES[without].may_show(schedule):
        return Found(seed, "", 0)
    signal.signal(signal.SIGVTALRM, _hangs)
    signal.setitimer(signal.ITIMER_VIRTUAL, _HANGS_S)
    outcome = simulate(schedule)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    return Found(seed, outcome.violation, outcome.steps)
