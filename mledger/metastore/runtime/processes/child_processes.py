"""Child processes: Python that imports the same modules as this process, and processes that end with this one.

A child Python imports modules from where its interpreter has them installed, never from the directory it starts in: the
files there, whatever their names, belong to their owner.

A child of `start_child` ends with this process, however that ends: kill -9 of a test run leaves no server behind. On
Linux the system kills the child when the thread that started it ends. So one thread, which lasts as long as the
process, starts them all. Elsewhere, a child is an ordinary one.
"""

import os
import site
import subprocess
import sys
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PATH_VARIABLE = "PYTHONPATH"
ONE_BLAS_THREAD = ("OPENBLAS_NUM_THREADS", "1")
"""For programs that import numpy and compute nothing with it: each thread of its BLAS spins for 50 ms at the start."""
OUR_PACKAGES = Path(__file__).parents[__name__.count(".")]

# In the child, before it becomes the program. The parent may have ended before the system knew of the wish.
_BECOME = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the process that started this one has ended")
os.execvp(sys.argv[2], sys.argv[2:])
"""


def python_command(module: str, *arguments: str) -> list[str]:
    """The command that runs `module` of this distribution, and imports nothing from the current directory."""
    return [sys.executable, "-P", "-m", module, *arguments]


def python_environment() -> dict[str, str]:
    """The environment for a child Python that imports this same mledger: installed, a checkout, or a zip.

    Where nothing says how many threads its BLAS has, it has none beside the program's own.
    """
    inherited = os.environ.get(PATH_VARIABLE, "")
    installed = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    path = plan_python_path(str(OUR_PACKAGES), inherited, installed)
    others = {name: value for name, value in os.environ.items() if name != PATH_VARIABLE}
    others.setdefault(*ONE_BLAS_THREAD)
    return {**others, PATH_VARIABLE: path} if path else others


def plan_python_path(packages: str, inherited: str, installed: Collection[str]) -> str:
    """The PYTHONPATH with which a child finds the directory `packages`; `installed` are the site directories.

    A directory that is searched anyway is not put in front: it would precede the standard library. Relative entries of
    `inherited` become absolute: the child starts in another directory.
    """
    given = [os.path.abspath(each) for each in inherited.split(os.pathsep) if each]
    if packages in installed or packages in given:
        return os.pathsep.join(given)
    return os.pathsep.join([packages, *given])


_starters: dict[int, ThreadPoolExecutor] = {}  # by pid: a forked process does not have its parent's threads


def start_child(command: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
    """`subprocess.Popen(command, **options)` for a process that is killed when this one ends.

    If the program cannot be run, the child reports it on stderr and ends with 1.
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
