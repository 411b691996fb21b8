"""Run a test's coroutine on a loop of its own."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

HANG_S = 600.0
"""What takes so long has come to a stand, however slow and busy the machine is; less than a test's own time-out."""


def run(main: Coroutine[Any, Any, T], *, timeout: float = HANG_S) -> T:
    """Run `main` to its end on a new loop; TimeoutError after `timeout` seconds, so that a hang fails by name."""
    sys.setswitchinterval(0.0005)

    async def bounded() -> T:
        async with asyncio.timeout(timeout):
            return await main

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(bounded())
