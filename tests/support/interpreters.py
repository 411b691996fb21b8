"""The interpreters of CPython on this machine."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.aio import HANG_S

OURS = "{}.{}".format(*sys.version_info)
TELL_VERSION = "import sys; print('{}.{}'.format(*sys.version_info))"


def find_interpreter(version: str) -> str | None:
    """An interpreter of `version`, such as 3.12: that of the tests, the first on PATH that runs, or pyenv's newest."""
    return next((python for python in _candidates(version) if _runs(python, version)), None)


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
