"""A client of a metadata store as a process of its own, for tests that kill or freeze it."""

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE


@contextlib.asynccontextmanager
async def client_process(url, session_timeout):
    """A process that holds the ephemeral node /mine."""
    command = [sys.executable, "-m", "tests.support.metadata.frozen_client", url, str(session_timeout)]
    client = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    try:
        assert await client.stdout.readline() == b"ready\n"
        yield client
    finally:
        if client.returncode is None:
            client.kill()
        await client.wait()
