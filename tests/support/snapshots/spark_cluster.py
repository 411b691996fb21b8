"""A Spark standalone cluster on loopback whose workers share nothing with the driver but the network.

Master and workers are processes of their own, each worker with a directory of its own. Their Python has no package:
those that mledger needs are named to it, or in an archive; mledger is always in an archive.
"""

import contextlib
import os
import re
import shutil
import site
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import psutil
import pytest

from mledger.snapshot.exports.spark.package_archive import write_archive
from tests.support.cli import ROOT
from tests.support.java.class_archives import quick_spark
from tests.support.snapshots.exports import processes_below, wait_for

WORKERS = 2
MEMORY = "700m"
SUBMIT = ROOT / "mledger" / "cli" / "snapshots" / "spark_submit.py"


@dataclass(frozen=True)
class SparkCluster:
    """The cluster at `url`, its files' directory, and the processes of its workers."""

    url: str
    directory: Path
    workers: list[subprocess.Popen]
    py_files: tuple[str, ...]
    environment: dict[str, str]

    def executors_at_work(self) -> list[psutil.Process]:
        """The executors that have started Python for a task."""
        return [
            each
            for worker in self.workers
            if processes_below(worker, "pyspark.daemon")
            for each in processes_below(worker, "CoarseGrainedExecutorBackend")
        ]

    def executors_begun(self) -> set[Path]:
        """The directories of all executors so far."""
        return set(self.directory.glob("worker-*/work/*/*"))

    def parts_on_workers(self) -> list[Path]:
        """The parts of tables on the workers' disks, without what is in packages."""
        return [each for each in self.directory.glob("worker-*/**/*.parquet") if "site-packages" not in each.parts]

    def kill(self, driver: subprocess.Popen) -> None:
        """Kill a driver, its JVM and its Python; its executors end with it."""
        below = psutil.Process(driver.pid).children(recursive=True)
        for each in (driver, *below):
            each.kill()
        self._executors_end()

    def _executors_end(self) -> None:
        wait_for(lambda: not any(processes_below(each, "CoarseGrainedExecutorBackend") for each in self.workers))

    @contextlib.contextmanager
    def submitted(
        self,
        metadata: str,
        to: str,
        *arguments: str,
        packed: Path | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
    ):
        """An export by spark-submit, as a process that ends with the context, and its executors too.

        Its workers get the package by `--py-files`, or `packed`, a virtual environment, by `--archives`. `settings` are
        Spark's, besides those of every export here. Driver and workers know the object store that the test uses now.
        """
        store = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        conf = {
            **{f"spark.executorEnv.{name}": value for name, value in store.items()},
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": MEMORY,
            "spark.executor.memory": MEMORY,
            "spark.driver.extraJavaOptions": quick_spark(),
            "spark.executor.extraJavaOptions": quick_spark(),
            "spark.sql.codegen.wholeStage": "false",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            **settings,
        }
        told = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        spark = [
            pyspark_file("bin/spark-submit"),
            "--master",
            self.url,
            *(in_archive(packed) if packed else self.py_files),
            *told,
        ]
        command = [*spark, str(SUBMIT), "--metadata", metadata, to, *arguments, "--output", "json"]
        driver = self.environment | store | {"PYTHONPATH": str(ROOT), "PYSPARK_DRIVER_PYTHON": sys.executable}
        process = subprocess.Popen(command, env=driver, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()
            self._executors_end()


@contextlib.contextmanager
def spark_cluster(directory: Path):
    """A cluster of `WORKERS` workers with one core each, whose files are below `directory`.

    Each has an address of its own, because Spark does not start a second copy of a task on the host of the first.
    """
    with_packages = environment_without_mledger(directory)["PYTHONPATH"]
    environment = environment_without_mledger(directory, packages=False)
    started: list[subprocess.Popen] = []
    try:
        at = ("--port", "0", "--webui-port", "0")
        master = _started("master.Master", "127.0.0.1", directory / "master", environment, *at)
        started.append(master)
        url = _logged(master, directory / "master", r"Starting Spark master at (spark://\S+)")
        for number in range(WORKERS):
            own, host = directory / f"worker-{number}", f"127.0.0.{1 + number}"
            arguments = ("--webui-port", "0", "-c", "1", "-m", "1g", "--work-dir", str(own / "work"), url)
            on_host = environment | {"SPARK_LOCAL_DIRS": str(own), "SPARK_LOCAL_IP": host}
            started.append(_started("worker.Worker", host, own, on_host, *arguments))
        for number in range(WORKERS):
            _logged(started[1 + number], directory / f"worker-{number}", "(Successfully registered with master)")
        python_path = ("--conf", f"spark.executorEnv.PYTHONPATH={with_packages}")
        py_files = ("--py-files", write_archive(str(directory)), *python_path)
        yield SparkCluster(url, directory, started[1:], py_files, environment)
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def environment_without_mledger(directory: Path, packages: bool = True) -> dict[str, str]:
    """The environment of Spark's processes whose Python has all packages but mledger, or none.

    Skips the test without Java.
    """
    if shutil.which("java") is None:
        pytest.skip("Spark needs a Java of 17 or later: install one (Debian: apt-get install default-jdk-headless)")
    environment = os.environ | {
        # Directories of this variable are not searched for .pth files, through which mledger is installed for editing.
        "PYTHONPATH": os.pathsep.join(site.getsitepackages() if packages else ()),
        "PYSPARK_PYTHON": sys._base_executable,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": quick_spark(),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    lacking = [environment["PYSPARK_PYTHON"], "-c", "import pyarrow, mledger"]
    said = subprocess.run(lacking, env=environment, cwd=directory, capture_output=True, text=True, check=False).stderr
    assert f"No module named '{'mledger' if packages else 'pyarrow'}'" in said, said
    return environment


def in_archive(packed: Path) -> tuple[str, ...]:
    """The words by which spark-submit gives workers the Python of a packed virtual environment."""
    python = (
        "--conf",
        "spark.pyspark.python=./env/bin/python",
        "--conf",
        f"spark.pyspark.driver.python={sys.executable}",
    )
    return ("--archives", f"{packed}#env", *python)


def _started(name: str, host: str, directory: Path, environment: dict[str, str], *arguments: str) -> subprocess.Popen:
    directory.mkdir()
    command = [pyspark_file("bin/spark-class"), f"org.apache.spark.deploy.{name}", "--host", host, *arguments]
    with open(directory / "log", "w") as log:
        return subprocess.Popen(command, cwd=directory, env=environment, stdout=log, stderr=log)


def _logged(process: subprocess.Popen, directory: Path, pattern: str) -> str:
    def found():
        assert process.poll() is None, (directory / "log").read_text()[-4000:]
        return re.search(pattern, (directory / "log").read_text())

    return wait_for(found)[1]


def pyspark_file(path: str) -> str:
    """A file of the package that ships Spark."""
    import pyspark

    return str(Path(pyspark.__file__).parent / path)
