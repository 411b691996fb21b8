"""The programs that start the image `mledger-pulsar` by testcontainers' own Pulsar modules, for Go and for Java."""

import os
from pathlib import Path

from tests.clients.builds import build_go, run_go
from tests.support.java.driver import QUICK_JAVA, run_maven

HERE = Path(__file__).resolve().parent
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
GO, TARGET = HERE / "go", HERE / "target"
GO_SUITE = GO / "target" / "suite"


def go_command() -> list[str]:
    """The command of Go's program, which is compiled if necessary; it takes an image's name."""
    return [str(build_go(GO, "container", "."))]


def go_suite() -> list[str]:
    """The command that runs Go's tests, which are compiled if necessary."""
    GO_SUITE.parent.mkdir(parents=True, exist_ok=True)
    run_go(GO, "test", "-c", "-o", str(GO_SUITE), "./suite")
    return [str(GO_SUITE), "-test.v"]


def java_suite() -> list[str]:
    """The command that runs Java's tests by JUnit, which are compiled if necessary."""
    launcher = "org.junit.platform.console.ConsoleLauncher"
    return [*java_command()[:-1], launcher, "execute", "--select-class", "containers.OrdersTest"]


def java_command() -> list[str]:
    """The command of Java's program, which is compiled if necessary; it takes an image's name."""
    run_maven(HERE, TARGET, ("compile", "dependency:copy-dependencies"), {})
    path = os.pathsep.join((str(TARGET / "classes"), str(TARGET / "lib" / "*")))
    return [
        "java",
        "-Xmx256m",
        *QUICK_JAVA,
        QUIET,
        "-cp",
        path,
        "containers.StartedImage",
    ]


if __name__ == "__main__":
    go_command()
    go_suite()
    java_command()
