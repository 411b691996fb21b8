"""One export at a time in a directory.

On this machine, a lock does it, which the system releases when the process ends. Elsewhere the exports of this machine
lock a file in the user's cache, and those of different machines make claims, without any operation that a store may
lack: a claim is an empty file `ID.MACHINE.BEAT.STATE`, and its writer replaces it by one with the next beat. Whoever
claims lists the others afterwards, and waits: a claim whose beat moves is alive, one whose beat stands still is dead.
Of two that both wait, the one with the greater id withdraws.

Who takes over removes the claims of the dead first. A writer that was paused may write its next beat after that, so a
beat counts only if it was written in time; the file of the last one that did is kept, and its being there shows that
nobody has taken over. Only then may the writer claim anew.
"""

import contextlib
import fcntl
import hashlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mledger.metastore.runtime.network.fork_guard import close_held, hold
from mledger.snapshot.exports.destination import Destination
from mledger.snapshot.exports.errors import ExportBusy, ExportError, ExportNotWritable

LOCK = ".export.lock"
CLAIMS = "_writers"
BEAT_S = 2.0
DEAD_S = 15.0
WAITING = "waiting"
HOLDING = "writing"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a claim's name says."""

    writer: str
    machine: str
    beat: int
    state: str

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.writer}.{self.machine}.{self.beat}.{self.state}"


def decode_claims(names: list[str]) -> dict[str, Claim]:
    """The last claim of each writer; other names are ignored."""
    found: dict[str, Claim] = {}
    for name in names:
        parts = name.split(".")
        if len(parts) == 4 and parts[2].isdigit():
            claim = Claim(parts[0], parts[1], int(parts[2]), parts[3])
            if claim.writer not in found or found[claim.writer].beat < claim.beat:
                found[claim.writer] = claim
    return found


def plan_wait(mine: str, first: Mapping[str, Claim], now: Mapping[str, Claim]) -> str | None:
    """Whether to go on waiting: None, or the writer for whom to withdraw.

    `first` are the claims as they were, `now` as they are.
    """
    for writer, claim in now.items():
        alive = writer in first and claim.beat != first[writer].beat
        if writer != mine and alive and (claim.state == HOLDING or writer < mine):
            return writer
    return None


@contextlib.contextmanager
def writing_at(there: Destination) -> Iterator[Callable[[], None]]:
    """Exclude other exports; yields what raises ExportBusy if another has taken over. ExportNotWritable, ExportBusy."""
    if there.local is not None:
        with _locked(there.local / LOCK, there.text, "name another directory"):
            yield lambda: None
        return
    lock = _lock_of(there.text)
    advice = f"exports of this machine to {there.text} lock a file in it: set XDG_CACHE_HOME to another directory"
    with _locked(lock, there.text, advice), _claimed(there, machine_of(lock)) as still_ours:
        yield still_ours


@contextlib.contextmanager
def _locked(path: Path, text: str, advice: str) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise ExportNotWritable(f"{path.parent} cannot be written: {error.strerror}; {advice}") from None
    hold(descriptor)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ExportBusy(f"another export is writing to {text}: wait until it ends") from None
        except OSError as error:  # a file system without locks
            raise ExportNotWritable(f"{path} cannot be locked: {error.strerror}; {advice}") from None
        yield
    finally:
        close_held(descriptor)


@contextlib.contextmanager
def _claimed(there: Destination, machine: str) -> Iterator[Callable[[], None]]:
    writer = ExportClaim(there.below(CLAIMS), machine)
    writer.claim()
    try:
        writer.wait()
        with writer.beating():
            yield writer.check
    finally:
        writer.withdraw()


class ExportClaim:
    """This export's claim in the directory `place`."""

    def __init__(self, place: Destination, machine: str, beat_s: float = BEAT_S, dead_s: float = DEAD_S) -> None:
        self._place = place
        self._beat_s = beat_s
        self._dead_s = dead_s
        self._claim = Claim(uuid.uuid4().hex, machine, 0, WAITING)
        self._written_at = now_s()
        self._ended = threading.Event()
        self._lock = threading.Lock()

    def claim(self) -> None:
        """Write the first claim. ExportNotWritable."""
        self._written_at = now_s()
        self._place.write(self._claim.name, b"")

    def wait(self, own: str = "") -> None:
        """Return once no other export is alive, whose claims are then removed, except those of the writer `own`.

        Raises ExportBusy.
        """
        first = self._others(own)
        for writer in [each for each, claim in first.items() if claim.machine == self._claim.machine]:
            self._remove(writer)  # this machine's lock is ours
            del first[writer]
        since = dict.fromkeys(first, time.monotonic())
        while first:
            self._ended.wait(self._beat_s)
            self._beat(WAITING)
            asked = time.monotonic()  # a pause after the answer must not count
            now = self._others(own)
            if busy := plan_wait(self._claim.writer, first, now):
                raise ExportBusy(
                    f"another export is writing to {self._place.above()}, on the machine {now[busy].machine}: "
                    "wait until it ends"
                )
            since = {
                writer: since[writer] if first.get(writer) == claim else time.monotonic()
                for writer, claim in now.items()
            }
            first = now
            for writer in [each for each, at in since.items() if asked - at >= self._dead_s]:
                self._remove(writer)
                del first[writer], since[writer]
        if not self._beat(HOLDING):
            raise self._taken_over()

    @contextlib.contextmanager
    def beating(self) -> Iterator[None]:
        """Renew the claim meanwhile."""
        thread = threading.Thread(target=self._renew, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def check(self) -> None:
        """Raise ExportBusy if another export took this one for dead. One that was paused, and was not, claims anew."""
        with self._lock:
            if self._is_late():
                self._claim_anew()
            elif self._claim.writer not in decode_claims(self._place.names()):
                raise self._taken_over()

    def withdraw(self) -> None:
        """Remove the claim, as far as the store still allows; else the next export finds it dead."""
        with contextlib.suppress(ExportError):
            self._remove(self._claim.writer)
            if not self._place.names():
                self._place.remove()

    def _renew(self) -> None:
        while not self._ended.wait(self._beat_s):
            with contextlib.suppress(ExportError), self._lock:  # the last `check` notices
                if not self._is_late() and self._claim.writer in decode_claims(self._place.names()):
                    self._beat(HOLDING)

    def _beat(self, state: str) -> bool:
        """Write the next beat; whether that was in time. If not, the claim is as before."""
        before, began = self._claim, now_s()
        after = Claim(before.writer, before.machine, before.beat + 1, state)
        self._place.write(after.name, b"")
        if self._is_late():  # others may have seen the last beat for long enough, and this one too late
            self._place.remove_file(after.name)
            return False
        self._claim, self._written_at = after, began
        self._place.remove_file(before.name)
        return True

    def _is_late(self) -> bool:
        """Whether another export may have taken this one for dead."""
        return now_s() - self._written_at >= self._dead_s

    def _claim_anew(self) -> None:
        """Claim again as another writer; ExportBusy unless the last claim is still there once this one holds."""
        last = self._claim
        if last.name not in self._place.names():
            raise self._taken_over()
        self._claim = Claim(uuid.uuid4().hex, last.machine, 0, WAITING)
        try:
            self.claim()
            self.wait(last.writer)
            if last.name not in self._place.names():
                raise self._taken_over()
        finally:
            self._remove(last.writer)

    def _taken_over(self) -> ExportBusy:
        return ExportBusy(
            f"another export has taken over {self._place.above()}, because this one did not renew its claim for "
            f"{self._dead_s:g} s: wait until it ends, and run this one again"
        )

    def _others(self, own: str) -> dict[str, Claim]:
        found = decode_claims(self._place.names())
        return {writer: claim for writer, claim in found.items() if writer not in (self._claim.writer, own)}

    def _remove(self, writer: str) -> None:
        for name in self._place.names():
            if name.startswith(f"{writer}."):
                self._place.remove_file(name)


def now_s() -> float:
    """Seconds of a clock that nobody sets and that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _lock_of(text: str) -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache) / "mledger" / "exports" / hashlib.sha256(text.encode()).hexdigest()[:16] / LOCK


def machine_of(lock: Path) -> str:
    """A name for the exports that lock this very file: those of one machine, since it started.

    Containers of one machine may have its name, and each a file of its own at the same path.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        boot = ""
    host = "".join(each if each.isalnum() or each == "-" else "-" for each in socket.gethostname())
    file = os.stat(lock)
    this = f"{boot} {lock.absolute()} {file.st_dev} {file.st_ino}"
    return f"{host}-{hashlib.sha256(this.encode()).hexdigest()[:12]}"
