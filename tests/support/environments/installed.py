"""The distribution as users have it: a wheel, built by its own build backend, in a virtual environment of its own.

Its dependencies come from the environment that runs the tests. The editable mledger there is out of reach.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from tests.support.aio import HANG_S
from tests.support.ports import environment_of_commands

OURS = Path(sysconfig.get_path("purelib"))
ROOT = Path(__file__).resolve().parents[3]
BUILT_FROM = ("mledger", "pyspark_mledger", "pytest_mledger", "pyproject.toml", "README.md", "LICENSE")
UV = Path(sysconfig.get_path("scripts")) / "uv"
PINS = ROOT / "tools" / "constraints.txt"
LAST_RETRY = "Retry(total=0,"
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


class Unreachable(Exception):
    """No package index answers here."""


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
        """Run a program in the directory `at`, with `variables` added to the environment of every test's command."""
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
    """The wheel, built from a copy of the tree without the leftovers of an earlier build."""
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
    """A new virtual environment with `wheel`, and with everything that is installed where the tests run."""
    made, packages = _install(wheel, directory)
    (packages / "others.pth").write_text(f"{OURS}\n")  # its .pth files, such as the editable mledger, are not read
    return made


def install_alone(wheel: Path, directory: Path) -> Installed:
    """A new virtual environment with only `wheel` and what it requires without extras."""
    made, packages = _install(wheel, directory)
    for name in _required(packages):
        for top in {file.parts[0] for file in metadata.distribution(name).files or () if file.parts[0] != ".."}:
            if (OURS / top).exists() and not (packages / top).exists():
                (packages / top).symlink_to(OURS / top)
    return made


def install_from_index(*requirements: str, python: str, directory: Path) -> Installed:
    """A new virtual environment of `python` with `requirements`, in CI's versions, from pip's index.

    By uv where `make setup` could use it, in a third of pip's time; where uv fails, pip tells why.

    Raises:
        Unreachable: no index answers.
    """
    made, pip = _environment(python, directory)
    options = ["--quiet", "--only-binary", ":all:", "--constraint", str(PINS), *requirements]
    by_uv = [str(UV), "pip", "install", "--python", str(made.python), *options]
    if UV.exists() and _by_installer(by_uv).returncode == 0:
        return made
    done = _by_installer([*pip, "--no-compile", *options])
    if done.returncode != 0 and LAST_RETRY in done.stderr:
        raise Unreachable(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return made


def _by_installer(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, env=_environment_of_pip(), capture_output=True, text=True, timeout=HANG_S)


def _required(packages: Path) -> set[str]:
    """The distributions that the mledger in `packages` requires, directly or indirectly."""
    (ours,) = metadata.distributions(name="mledger", path=[str(packages)])
    found: set[str] = set()
    waiting = list(ours.requires or ())
    while waiting:
        requirement = Requirement(waiting.pop())
        if requirement.name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found.add(requirement.name)
            waiting += metadata.requires(requirement.name) or ()
    return found


def _install(wheel: Path, directory: Path) -> tuple[Installed, Path]:
    """A new virtual environment with only `wheel`, and the directory of its packages."""
    made, pip = _environment(sys.executable, directory)
    options = ["--quiet", "--no-deps", "--no-index", "--ignore-installed", "--no-compile"]
    subprocess.run([*pip, *options, str(wheel)], check=True, timeout=HANG_S, env=_environment_of_pip())
    packages = sysconfig.get_path("purelib", vars={"base": str(directory), "platbase": str(directory)})
    return made, Path(packages)


def _environment_of_pip() -> dict[str, str]:
    """This process's environment for pip, without what tests of Spark add to PYTHONPATH."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PIP_FIND_LINKS": ""}


def _environment(python: str, directory: Path) -> tuple[Installed, list[str]]:
    """A new, empty virtual environment of `python`, and the command that installs into it."""
    subprocess.run([python, "-m", "venv", "--without-pip", directory], check=True, timeout=HANG_S)
    made = Installed(directory)
    ours = [sys.executable, "-m", "pip", "--python", str(made.python), "--disable-pip-version-check"]
    return made, [*ours, "install"]
