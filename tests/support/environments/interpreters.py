"""The interpreters of CPython on this machine."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.aio import HANG_S
from tests.support.environments import debian_python

OURS = "{}.{}".format(*sys.version_info)
TELL_VERSION = "import sys; print('{}.{}'.format(*sys.version_info))"


class NoInterpreter(Exception):
    """This version is not here. The message says where it was looked for."""


def find_interpreter(version: str) -> str:
    """An interpreter of `version`, such as 3.12.

    That of the tests, else the first on PATH that runs, else pyenv's newest, else Debian's (3.14 only, fetched).

    Raises:
        NoInterpreter: none of them is here.
    """
    for python in _candidates(version):
        if _runs(python, version):
            return python
    where = f"Python {version} is not installed: no python{version} on PATH, none of pyenv"
    if version != debian_python.VERSION:
        raise NoInterpreter(where)
    try:
        python = debian_python.debian_python()
    except debian_python.NotToBeHad as error:
        raise NoInterpreter(f"{where}; {error}") from error
    if not _runs(python, version):
        raise NoInterpreter(f"{where}; Debian's in {python} does not run")
    return python


def _candidates(version: str) -> Iterator[str]:
    if version == OURS:
        yield sys.executable
    for directory in os.get_exec_path():
        if on_path := shutil.which(f"python{version}", path=directory):
            yield on_path
    of_pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}.*/bin/python")
    yield from map(
        str, sorted(of_pyenv, key=lambda each: list(map(int, re.findall(r"\d+", each.parts[-3]))), reverse=True)
    )


def _runs(python: str, version: str) -> bool:
    """Whether it is an interpreter: pyenv's `python3.12` on PATH may only explain how to choose one."""
    told = subprocess.run([python, "-c", TELL_VERSION], capture_output=True, text=True, timeout=HANG_S)
    return told.returncode == 0 and told.stdout.strip() == version
