"""The process at the other end of a Unix socket: who it is, and whether it has ended, so that its session can end.

Only certainty counts. A process has ended if this system, in the same pid namespace, has no process with that pid and
start time, or has rebooted since. Where this cannot be determined, sessions end by their time-out.
"""

import contextlib
import os
import socket
import struct

from msgspec import Struct

_CREDENTIALS = struct.Struct("3i")
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_NAMESPACE = "/proc/self/ns/pid"
_STARTED = 19  # fields of /proc/<pid>/stat after the command's closing bracket: state is the first
_ENDED_STATES = ("Z", "X", "x")


class PeerProcess(Struct, frozen=True):
    """A process, identified for good: `started` (ticks since boot) and the boot id distinguish reuses of a pid."""

    pid: int
    started: int
    boot_id: str
    pid_namespace: str


def process_of(connection: socket.socket) -> PeerProcess | None:
    """The process that connected; None where the system does not tell which."""
    try:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid = _CREDENTIALS.unpack(credentials)[0]
        if pid <= 0:  # of another namespace
            return None
        found = _look(pid)
        if found is None:
            return None
        return PeerProcess(pid, found[1], _boot_id(), os.readlink(_NAMESPACE))
    except (AttributeError, OSError):
        return None


def is_gone(process: PeerProcess) -> bool:
    """Whether it is certain that `process` has ended."""
    try:
        if _boot_id() != process.boot_id:
            return True
        if os.readlink(_NAMESPACE) != process.pid_namespace:
            return False
        found = _look(process.pid)
    except OSError:
        return False
    return found is None or found[0] in _ENDED_STATES or found[1] != process.started


def end_of(process: PeerProcess) -> int | None:
    """A file descriptor that becomes readable when `process` ends; None where the system does not provide one."""
    with contextlib.suppress(AttributeError, OSError):
        descriptor = os.pidfd_open(process.pid)
        if not is_gone(process):
            return descriptor
        os.close(descriptor)
    return None


def _look(pid: int) -> tuple[str, int] | None:
    """State and start time of the process with `pid` now; None when there is none. OSError without /proc."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # the command's name is cut to 15 bytes, maybe inside a character
            fields = file.read().rpartition(b")")[2].decode("ascii").split()
    except (FileNotFoundError, ProcessLookupError):
        os.stat("/proc/self/stat")
        return None
    return fields[0], int(fields[_STARTED])


def _boot_id() -> str:
    with open(_BOOT_ID) as file:
        return file.read().strip()
