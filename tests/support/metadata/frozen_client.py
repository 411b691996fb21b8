"""A process that holds a session and reports its fate: `python -m tests.support.metadata.frozen_client URL [TIME-OUT]`.

It prints `ready`, and after SIGCONT `expired` and the errors that it gets, each line once it is true.
"""

import asyncio
import sys

from mledger.metastore.errors import SessionExpired
from mledger.metastore.store import SessionState
from mledger.metastore.url import open_store
from tests.support.aio import HANG_S
from tests.support.zookeeper.server import SHORT_SESSION_S


async def main(url: str, session_timeout: float) -> None:
    async with await open_store(url, session_timeout=session_timeout) as store, store.watch("/other") as changes:
        await store.create("/mine", ephemeral=True)
        print("ready", flush=True)
        await store.wait_for_session(SessionState.EXPIRED, timeout=HANG_S)
        print("expired", flush=True)
        for name, attempt in (("watch", anext(changes)), ("get", store.get("/")), ("create", store.create("/late"))):
            try:
                await attempt
            except SessionExpired as error:
                print(name, type(error).__name__, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else SHORT_SESSION_S))
