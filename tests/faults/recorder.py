"""Runs owners, records what they report as it arrives, and kills them with enough in flight."""

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

from tests.faults.history import OwnerLife, TopicHistory
from tests.faults.owner import RECOVERING, UNDER_WAY, OwnerLoad

ROOT = Path(__file__).resolve().parents[2]
_DEADLINE_S = 300.0
_PATIENCE_S = 0.2


class OwnerEnded(Exception):
    """The owner ended by itself. Holds its stderr."""


class OwnerProcess:
    """One owner, from its start to its SIGKILL."""

    def __init__(
        self,
        history: TopicHistory,
        url: str,
        log: Path,
        pause_at: str = "",
        load: OwnerLoad | None = None,
        beside: "OwnerProcess | None" = None,
    ) -> None:
        """`beside`: an owner that still lives; its reports count before the later ones of this owner."""
        self.owner = OwnerLife(len(history.owners))
        history.owners.append(self.owner)
        self.history, self.log, self._beside = history, log, beside
        self._rest = b""
        arguments = [url, str(self.owner.epoch), pause_at, (load or OwnerLoad()).encode()]
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.owner", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        fcntl.fcntl(self.process.stdout, fcntl.F_SETPIPE_SZ, 1 << 20)

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self.process.poll() is None

    def until(self, condition: Callable[[OwnerLife], bool], within: float = _DEADLINE_S) -> None:
        """Record until `condition` holds of the owner. Raises TimeoutError, or OwnerEnded if it ends before."""
        deadline = time.monotonic() + within
        while not condition(self.owner):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {within:g} s: {self.owner}\n{self._said()}")
            self._record(_PATIENCE_S)

    def for_seconds(self, seconds: float) -> None:
        """Record for so long. Raises OwnerEnded if it ends before."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._record(min(left, _PATIENCE_S))

    def acknowledge_more(self, entries: int, within: float = _DEADLINE_S) -> None:
        """Record until `count` more entries are acknowledged."""
        target = self.owner.acked_entries + entries
        self.until(lambda seen: seen.acked_entries >= target, within)

    def drain(self) -> None:
        """Record what it has already reported."""
        while not self.process.stdout.closed and self._waiting():
            self._record(0)

    def step_clock(self, ms: int) -> None:
        """Step its clock forward or back. BrokenPipeError if it has ended."""
        assert self.process.stdin is not None
        os.write(self.process.stdin.fileno(), b"clock %d\n" % ms)

    def freeze(self) -> None:
        """Send SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Send SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def kill_under_way(self) -> None:
        """Send SIGKILL when enough is in flight: stop it to check, and let it continue if there is too little."""
        while True:
            self.until(_enough)
            self.process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)
            self.drain()
            if _enough(self.owner):
                break
            self.process.send_signal(signal.SIGCONT)
        self.kill()
        assert self.owner.in_flight >= UNDER_WAY
        assert self.owner.unflushed >= 1

    def kill_at(self, step: str) -> None:
        """Send SIGKILL while it stops at `step`."""
        self.until(lambda owner: owner.at == step)
        self.kill()
        if step != RECOVERING:
            assert self.owner.in_flight >= UNDER_WAY
            assert self.owner.unflushed >= 1

    def kill(self) -> None:
        """Send SIGKILL, and record what is left in the pipe: its reports before its death."""
        self.process.kill()
        while self._record(None):
            pass
        assert self.process.wait() == -signal.SIGKILL
        self._close_pipes()

    def close(self) -> None:
        """End it if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _waiting(self) -> int:
        count = bytearray(4)
        fcntl.ioctl(self.process.stdout, termios.FIONREAD, count)
        return int.from_bytes(count, sys.byteorder)

    def _record(self, timeout: float | None) -> bool:
        """Read what has arrived; False at the end of the pipe. `timeout` None waits for ever."""
        if timeout is not None and not select.select([self.process.stdout], [], [], timeout)[0]:
            return True
        data = os.read(self.process.stdout.fileno(), 1 << 20)
        if not data:
            if self.process.wait() != -signal.SIGKILL:
                raise OwnerEnded(f"{self.owner.ended}\n{self._said()}")
            return False
        if self._beside is not None:
            self._beside.drain()
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self.history.record(json.loads(line), self.owner)
        return True

    def _said(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


def _enough(owner: OwnerLife) -> bool:
    return owner.in_flight >= UNDER_WAY and owner.unflushed >= 1
