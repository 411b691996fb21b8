"""The programs that start the image `mledger-pulsar` by testcontainers' own Pulsar modules, for Go and for Java."""

import os
from pathlib import Path

from tests.clients.builds import build_go
from tests.support.java.driver import run_maven

HERE = Path(__file__).resolve().parent
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
GO, TARGET = HERE / "go", HERE / "target"


def go_command() -> list[str]:
    """The command of Go's program, which is compiled if necessary; it takes an image's name."""
    return [str(build_go(GO, "container", "."))]


def java_command() -> list[str]:
    """The command of Java's program, which is compiled if necessary; it takes an image's name."""
    run_maven(HERE, TARGET, ("compile", "dependency:copy-dependencies"), {})
    path = os.pathsep.join((str(TARGET / "classes"), str(TARGET / "lib" / "*")))
    return [
        "java",
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        QUIET,
        "-cp",
        path,
        "containers.StartedImage",
    ]


if __name__ == "__main__":
    go_command()
    java_command()
