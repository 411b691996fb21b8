"""The distribution as users have it: a wheel, built by its own build backend, in a virtual environment without ours.

What it depends on is taken from the environment that the tests run in; the editable mledger there is out of reach.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from tests.support.aio import HANG_S
from tests.support.ports import environment_of_commands

ROOT = Path(__file__).resolve().parents[2]
BUILT_FROM = ("mledger", "pyspark_mledger", "pytest_mledger", "pyproject.toml", "README.md", "LICENSE")
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel."""

    directory: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.directory / "bin" / "python"

    @property
    def command(self) -> Path:
        """Its `mledger`."""
        return self.directory / "bin" / "mledger"

    def run(self, *command: object, at: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run a program in the directory `at`, with `variables` beside what every test's command has."""
        ours = {"PYTHONPATH", "PYTHONSAFEPATH", "PYSPARK_PYTHON"}
        environment = {name: value for name, value in environment_of_commands().items() if name not in ours}
        return subprocess.run(
            list(map(str, command)),
            cwd=at,
            env={name: value for name, value in environment.items() if not name.startswith("PYTEST")} | variables,
            capture_output=True,
            text=True,
            timeout=HANG_S,
        )


def build_wheel(to: Path) -> Path:
    """The wheel, built from a copy of the tree: what an earlier build left beside it is not in it."""
    copy = to / "tree"
    copy.mkdir(parents=True)
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy)
    subprocess.run([sys.executable, "-c", BUILD, str(to)], cwd=copy, check=True, capture_output=True, timeout=HANG_S)
    (wheel,) = to.glob("*.whl")
    return wheel


def install(wheel: Path, directory: Path) -> Installed:
    """A new virtual environment with `wheel`."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True, timeout=HANG_S)
    made = Installed(directory)
    ours = sysconfig.get_path("purelib")
    theirs = Path(sysconfig.get_path("purelib", vars={"base": str(directory), "platbase": str(directory)}))
    (theirs / "dependencies.pth").write_text(f"{ours}\n")  # its own .pth files, the editable mledger, are not read
    pip = [sys.executable, "-m", "pip", "--python", str(made.python), "--disable-pip-version-check", "install"]
    options = ["--quiet", "--no-deps", "--no-index", "--ignore-installed", "--no-compile"]
    subprocess.run([*pip, *options, str(wheel)], check=True, timeout=HANG_S, env=os.environ | {"PIP_FIND_LINKS": ""})
    return made
