"""The standalone of the fixture `pulsar`, whose clock can be moved: the first argument is the clock's file."""

from collections.abc import Sequence
from pathlib import Path

from mledger.standalone.main import main as run_standalone
from pytest_mledger.servers.movable_clock import MovableClock


def main(arguments: Sequence[str]) -> int:
    """Run it; return its exit code."""
    path, *options = arguments
    clock = MovableClock(Path(path))
    clock.install()
    return run_standalone(options, make_loop=clock.make_loop)
