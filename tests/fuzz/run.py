"""Feeds a target its inputs in a process of its own, with a limit of memory and of time for each input.

An input that ends the process (a crash in compiled code, no memory, no end) is found again in memory that the process
shares with its parent.
"""

import contextlib
import faulthandler
import mmap
import os
import pickle
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz.targets import FuzzTarget

SLOWEST_S = 1.0
"""CPU seconds that an input of at most 64 KiB may take, in the best of several attempts: a busy machine stalls."""
STUCK_S = 300.0
"""Seconds of wall time after which the process is ended if a hundred inputs do not finish."""
MEMORY = 768 << 20
"""Bytes of address space that reading may take beyond what the process had before."""
LARGEST_INPUT = 4 << 20
_MOST_FINDINGS = 20
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class MisreadInput:
    """An input that was not read as it should be."""

    target: str
    what: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Report:
    """The results of a target: inputs, how many were accepted, the slowest one (CPU s), the memory it took (MiB)."""

    target: str
    inputs: int
    accepted: int
    slowest_s: float
    memory_mib: float
    cpu_s: float
    findings: tuple[MisreadInput, ...] = ()


def fuzz(target: FuzzTarget, inputs: int, seed: str) -> Report:
    """Run `inputs` inputs of the target in a child process, and return the results."""
    last = mmap.mmap(-1, LARGEST_INPUT + 8)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            report = _work(target, inputs, seed, last)
            with os.fdopen(writer, "wb") as stream:
                pickle.dump(report, stream)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(70)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        answer = stream.read()
    _, status = os.waitpid(child, 0)
    if status == 0 and answer:
        report = pickle.loads(answer)
        assert isinstance(report, Report)
        return report
    ended = os.waitstatus_to_exitcode(status)
    what = f"ended the process by {signal.Signals(-ended).name}" if ended < 0 else f"ended the process with {ended}"
    size = int.from_bytes(last[:8], "big")
    return Report(target.name, 0, 0, 0.0, 0.0, 0.0, (MisreadInput(target.name, what, last[8 : 8 + size]),))


def _work(target: FuzzTarget, inputs: int, seed: str, last: mmap.mmap) -> Report:
    faulthandler.enable()
    make = target.make(f"{seed}/{target.name}")
    run, refusals = target.run, target.refusals
    before = _limit_memory()
    clock = time.thread_time
    began, slowest, accepted = clock(), 0.0, 0
    findings: list[MisreadInput] = []
    kinds: set[str] = set()
    for number in range(inputs):
        if number % 100 == 0:
            faulthandler.dump_traceback_later(STUCK_S, exit=True)
        data = make()
        last[: 8 + len(data)] = len(data).to_bytes(8, "big") + data
        start = clock()
        try:
            run(data)
            accepted += 1
        except refusals:
            what = ""
        except Exception as error:
            what = _describe(error)
        else:
            what = ""
        took = clock() - start
        if took > SLOWEST_S:
            took = min(took, *(_time_of(run, data, clock) for _ in range(_ATTEMPTS)))
        slowest = max(slowest, took)
        if took > SLOWEST_S and len(data) <= 1 << 16:
            what = f"took {took:.1f} s of CPU"
        if what and what not in kinds and len(findings) < _MOST_FINDINGS:
            kinds.add(what)
            findings.append(MisreadInput(target.name, what, data))
    faulthandler.cancel_dump_traceback_later()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Report(target.name, inputs, accepted, slowest, peak - before, clock() - began, tuple(findings))


def _time_of(run: Callable[[bytes], object], data: bytes, clock: Callable[[], float]) -> float:
    start = clock()
    with contextlib.suppress(Exception):
        run(data)
    return clock() - start


def _describe(error: Exception) -> str:
    """An error by its type and the place that raised it: one finding for all inputs that cause it there."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/tests/fuzz/run" not in frame.filename]
    where = [f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in frames[-3:]]
    return (
        f"{type(error).__name__} at {' '.join(where)}: {str(error)[:200]}"
        if len(str(error)) < 60
        else (f"{type(error).__name__} at {' '.join(where)}")
    )


def _limit_memory() -> float:
    """Limit the address space. Returns the MiB that are resident before."""
    with open("/proc/self/statm") as file:
        pages, resident = (int(number) for number in file.read().split()[:2])
    size = os.sysconf("SC_PAGE_SIZE")
    limit = pages * size + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return resident * size / (1 << 20)


def stay_quiet(nice: int) -> None:
    """Lower the priority, and dump no core."""
    os.nice(nice)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(1_000)
