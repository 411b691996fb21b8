"""The import of pandas by pyarrow, which processes of our own do without.

For the first array that pyarrow makes of Python values it imports pandas, where that is installed, to know whether the
values are pandas'. That takes a quarter of a second, and as much processor time again in each worker.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa

PANDAS = "pandas"


class _NoPandas(MetaPathFinder):
    """Finds every module but pandas where it is."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == PANDAS:
            raise ModuleNotFoundError(f"No module named {PANDAS!r}", name=PANDAS)
        return None


def leave_pandas_out() -> None:
    """Have pyarrow never import pandas in this process, unless that is imported already.

    For programs of our own, since nothing of pyarrow can be made pandas afterwards. Others may import pandas.
    """
    if PANDAS in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
