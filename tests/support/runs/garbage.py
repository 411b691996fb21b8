"""What a run has collected stays to its end: the garbage collector need not look through it again and again.

Every worker holds some ten thousand tests with their modules. Looking through them took a sixth of its work.
"""

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without the garbage collector, and keep what is there from it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
