"""Runs a command and measures what all its processes use: time, CPU, memory."""

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from bench.rig.cluster import ROOT

INTERVAL_S = 0.2


@dataclass(frozen=True, slots=True)
class Usage:
    """Elapsed seconds, and CPU seconds and peak MiB by program (`java`, `python`).

    Shared memory is counted once. `peak_mib` is the peak of all programs together.
    """

    seconds: float
    cpu: dict[str, float]
    memory: dict[str, float]
    peak_mib: float
    output: str


class _Watch:
    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._cpu: dict[int, tuple[str, float]] = {}
        self.memory: Counter[str] = Counter()
        self.peak_mib = 0.0

    def look(self) -> None:
        """Measure all processes once."""
        now: Counter[str] = Counter()
        try:
            every = [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in every:
            try:
                program = "java" if process.name() == "java" else "python"
                times = process.cpu_times()
                self._cpu[process.pid] = program, times.user + times.system
                now[program] += process.memory_full_info().pss / (1 << 20)
            except psutil.Error:
                continue
        self.peak_mib = max(self.peak_mib, now.total())
        for program, value in now.items():
            self.memory[program] = max(self.memory[program], value)

    @property
    def cpu(self) -> dict[str, float]:
        """CPU seconds by program."""
        found: Counter[str] = Counter()
        for program, seconds in self._cpu.values():
            found[program] += seconds
        return dict(found)


def watch(arguments: Sequence[str]) -> Usage:
    """Run `python` with these arguments to its end; it must exit with 0."""
    began = time.monotonic()
    with subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        looking = _Watch(process.pid)
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(INTERVAL_S):
                looking.look()

        thread = threading.Thread(target=look)
        thread.start()
        try:
            assert process.stdout is not None
            output = process.stdout.read()
            process.wait()
            seconds = time.monotonic() - began
        finally:
            ended.set()
            thread.join()
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {process.returncode}")
    return Usage(seconds, looking.cpu, dict(looking.memory), looking.peak_mib, output)
