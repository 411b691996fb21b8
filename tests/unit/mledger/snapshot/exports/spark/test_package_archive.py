"""The archive of the package that Spark's workers import."""

import subprocess
import sys
from pathlib import Path

from mledger.snapshot.exports.spark.package_archive import write_archive

IMPORT = "import sys; sys.path[:0] = [{!r}]; import mledger.snapshot.source.spark as found; print(found.__file__)"


def test_the_same_modules_give_the_same_name_and_bytes(tmp_path):
    (tmp_path / "again").mkdir()
    first, second = (Path(write_archive(str(to))) for to in (tmp_path, tmp_path / "again"))
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_python_imports_the_package_from_the_archive(tmp_path):
    archive = write_archive(str(tmp_path))
    command = [sys.executable, "-c", IMPORT.format(archive)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"{archive}/mledger/snapshot/source/spark.py\n"
