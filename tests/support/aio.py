"""Runs a test's coroutine on an event loop of its own."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

HANG_S = 600.0
"""Whatever takes this long hangs, even on a slow and busy machine. Less than the time-out of a test."""


def run(main: Coroutine[Any, Any, T], *, timeout: float = HANG_S) -> T:
    """Run `main` to its end on a new loop. TimeoutError after `timeout` seconds makes a hang fail by name."""
    sys.setswitchinterval(0.0005)

    async def bounded() -> T:
        async with asyncio.timeout(timeout):
            return await main

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(bounded())
