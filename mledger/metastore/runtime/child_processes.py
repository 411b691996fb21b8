"""Child processes that end with this one, however it ends: kill -9 of a test run leaves no server behind.

On Linux the system kills the child when the thread that started it has ended; so all are started by one thread that
lasts as long as the process. Elsewhere a child is one like any other.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

# In the child, before it becomes the program. The parent may have ended before the system knew of the wish.
_BECOME = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the process that started this one has ended")
os.execvp(sys.argv[2], sys.argv[2:])
"""

_starters: dict[int, ThreadPoolExecutor] = {}  # by process: a forked one has not the threads of its parent


def start_child(command: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
    """`subprocess.Popen(command, **options)`, of a process that is killed when this one ends.

    A program that cannot be run is told of on its stderr, and ends with 1.
    """
    if sys.platform != "linux" or not sys.executable:
        return subprocess.Popen(list(command), **options)
    starter = _starters.get(os.getpid())
    if starter is None:
        starter = _starters[os.getpid()] = ThreadPoolExecutor(1, "starter of child processes")
    become = [sys.executable, "-I", "-S", "-c", _BECOME, str(os.getpid()), *command]
    return starter.submit(_start, become, options).result()


def _start(command: list[str], options: dict[str, Any]) -> "subprocess.Popen[Any]":
    return subprocess.Popen(command, **options)
