"""Commands that are imported on first use."""

import subprocess
import sys

import pytest

WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = None
from mledger.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize("arguments", [("snapshot", "list", "here"), ("report", "--help")], ids=" ".join)
def test_a_command_that_lacks_a_package_names_the_extra_that_brings_it(arguments: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_PYARROW, *arguments], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "mledger: snapshots and reports need the package pyarrow: pip install 'mledger[report]'\n"
