"""What a program that imports mledger loads, and a test that uses its plugin."""

import builtins
import inspect
import re
import subprocess
import sys

import pytest

import mledger
from tests.support.aio import HANG_S
from tests.support.cli import ROOT

NAMES = "import mledger; [getattr(mledger, name) for name in mledger.__all__]"
PLUGIN = "import pytest_mledger.plugin; [getattr(pytest_mledger, name) for name in pytest_mledger.__all__]"
OF_THE_COMMAND = {"click", "rich", "mledger.cli"}
OF_SERVERS = {"mledger.bookie.server", "psutil", "rocksdict"}
OF_SNAPSHOTS = {"duckdb", "matplotlib", "pyarrow", "pyspark"}


def loaded(program: str) -> set[str]:
    """The modules that a fresh interpreter has imported after `program`, and their packages."""
    command = [sys.executable, "-c", f"{program}; import sys; print(*sys.modules)"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("program", [NAMES, PLUGIN], ids=["every public name", "the plugin"])
def test_neither_the_command_nor_servers_nor_spark_are_loaded(program):
    assert not loaded(program) & (OF_THE_COMMAND | OF_SERVERS | OF_SNAPSHOTS)


def test_importing_mledger_alone_loads_no_other_package_of_ours():
    assert {name for name in loaded("import mledger") if name.startswith("mledger")} == {"mledger"}


def raised_by(documented: object) -> set[str]:
    """The errors that the `Raises:` section of a docstring lists."""
    _, _, section = (inspect.getdoc(documented) or "").partition("Raises:\n")
    listed = re.findall(r"^    ([A-Z]\w+(?:, [A-Z]\w+)*):", section.partition("\n\n")[0], re.MULTILINE)
    return {name for names in listed for name in names.split(", ")}


def test_programs_can_name_every_error_that_public_functions_and_methods_raise():
    public = [getattr(mledger, name) for name in mledger.__all__]
    methods = [
        method
        for each in public
        if inspect.isclass(each)
        for name, method in inspect.getmembers(each)
        if not name.startswith("_")
    ]
    raised = set().union(*map(raised_by, [*public, *methods]))
    assert {"StoreUnavailable", "TopicExists"} <= raised
    assert {name for name in raised if not hasattr(builtins, name)} <= set(mledger.__all__)
