"""pyarrow imports pandas for nobody's sake; each program here is a process of its own."""

import subprocess
import sys

import pytest

pytest.importorskip("pandas")


def run(*lines):
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_arrays_are_made_without_pandas():
    assert run(
        "import sys, pyarrow",
        "from mledger.snapshot.tables.pandas_import import leave_pandas_out",
        "leave_pandas_out()",
        "print(pyarrow.array([1, 2]).to_pylist() == [1, 2], 'pandas' in sys.modules)",
    ) == ["True", "False"]


def test_others_may_import_pandas():
    assert run(
        "from mledger.snapshot.tables.pandas_import import leave_pandas_out",
        "leave_pandas_out()",
        "import pandas",
        "print(len(pandas.Series([1, 2])))",
    ) == ["2"]


def test_with_pandas_imported_arrow_still_makes_it():
    assert run(
        "import pandas, pyarrow",
        "from mledger.snapshot.tables.pandas_import import leave_pandas_out",
        "leave_pandas_out()",
        "print(len(pyarrow.table({'a': [1, 2, 3]}).to_pandas()))",
    ) == ["3"]
