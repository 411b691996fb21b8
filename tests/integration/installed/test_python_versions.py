"""The wheel and its requirements from PyPI, with each Python that pyproject.toml names."""

import re
import subprocess
import sys
import tomllib

import pytest

from tests.support.environments.installed import ROOT, Installed, Unreachable, install_from_index
from tests.support.environments.interpreters import OURS, NoInterpreter, find_interpreter

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMPORTS_ALL = """
import mledger
for name in mledger.__all__:
    getattr(mledger, name)
import mledger.bookie.server.process.main
import mledger.cli.main
import mledger.metastore.zookeeper.store
import pytest_mledger.plugin
print(len(mledger.__all__) > 0 and mledger.__file__)
"""
SIMULATE = ("-m", "tests.sim", "--digest", "--schedules", "20")


@pytest.fixture(scope="module", params=dict.fromkeys((*PYTHONS, OURS)))
def on_version(request, wheel, tmp_path_factory) -> Installed:
    """The wheel in an environment of its own, for one version of Python."""
    try:
        python = find_interpreter(request.param)
    except NoInterpreter as error:
        pytest.skip(str(error))
    directory = tmp_path_factory.mktemp(f"python{request.param}") / "venv"
    try:
        return install_from_index(f"{wheel}[local]", "pytest", python=python, directory=directory)
    except Unreachable as error:
        if request.param == OURS:  # its requirements are also installed where the tests run
            return request.getfixturevalue("installed")
        pytest.skip(f"packages for Python {request.param} are not to be had here: {error}")


@pytest.mark.slow
def test_everything_is_imported_and_the_command_runs(on_version, tmp_path) -> None:
    imported = on_version.run(on_version.python, "-W", "error::SyntaxWarning", "-c", IMPORTS_ALL, at=tmp_path)
    assert imported.returncode == 0, imported.stderr
    assert str(on_version.directory) in imported.stdout
    version = on_version.run(on_version.command, "--version", at=tmp_path)
    assert (version.returncode, version.stderr) == (0, "")
    assert PROJECT["version"] in version.stdout
    help_text = on_version.run(on_version.command, "--help", at=tmp_path)
    assert (help_text.returncode, help_text.stderr) == (0, "")
    assert "topics" in help_text.stdout


@pytest.fixture(scope="module")
def history_here() -> str:
    """What the simulated seeds print in this Python."""
    return subprocess.run([sys.executable, *SIMULATE], cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_a_simulated_seed_is_the_same_history_on_each_python(on_version, history_here) -> None:
    """Sets, random numbers and the order of callbacks are the same in every version that is supported."""
    there = on_version.run(on_version.python, *SIMULATE, at=ROOT)
    assert (there.stdout, there.stderr) == (history_here, "")


def test_every_named_python_is_tried() -> None:
    named = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", each) for each in PROJECT["classifiers"]]
    assert {found[1] for found in named if found} == set(PYTHONS)
