"""A metadata store whose answers are held back: a write is carried out, but its caller does not learn of it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

from msgspec.structs import replace

from mledger.metastore.store import MetadataStore
from mledger.metastore.url import ZooKeeperUrl, open_store, parse_url
from tests.faults.soak.proxy import LinkState, Proxies, Proxy


class HeldAnswers:
    """A link to the ZooKeeper at `direct_url`. Connections to `url` go through it."""

    def __init__(self, direct_url: str, url: str, proxy: Proxy) -> None:
        self.direct_url, self.url = direct_url, url
        self._proxy = proxy
        self._step = ""

    def on_step(self, step: str) -> None:
        """The `on_step` of a topic. Answers are held from the step for which `carried_out_unheard` waits."""
        if step == self._step:
            self._step = ""
            self._proxy.set(LinkState.DEAF)

    @contextlib.asynccontextmanager
    async def direct(self) -> AsyncIterator[MetadataStore]:
        """The store, over another link."""
        async with await open_store(self.direct_url) as store:
            yield store

    async def lose_session(self, ephemeral: str, *, back: bool = True) -> None:
        """Cut the link until the session that owns the node `ephemeral` has expired; with `back`, then restore it."""
        async with self.direct() as store:
            self._proxy.set(LinkState.CUT)
            owner = await store.exists(ephemeral)
            while owner is not None and (now := await store.exists(ephemeral)) is not None:
                if now.ephemeral_owner != owner.ephemeral_owner:
                    break
                await asyncio.sleep(0.05)
            if back:
                self._proxy.set(LinkState.GOOD)

    def hold(self, step: str) -> None:
        """Hold answers from `step` on."""
        self._step = step

    def cut(self) -> None:
        """Cut the link. Held answers never arrive."""
        self._proxy.set(LinkState.CUT)

    def release(self) -> None:
        """Hold no more answers. Held answers arrive."""
        self._step = ""
        self._proxy.set(LinkState.GOOD)

    async def carried_out_unheard(self, work: Coroutine[Any, Any, Any], path: str, step: str = "") -> None:
        """Run `work` until it has changed the node at `path`, and cancel it before it learns of the change.

        Answers are held from `step`, or from the start.
        """
        async with self.direct() as store, store.watch(path) as changes:
            self._step = step
            if not step:
                self._proxy.set(LinkState.DEAF)
            task = asyncio.ensure_future(work)
            changed = asyncio.ensure_future(anext(changes))
            await asyncio.wait([task, changed], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                raise AssertionError(f"it ended without waiting for an answer: {task.exception()!r}")
            task.cancel()
            self._proxy.set(LinkState.GOOD)
            await asyncio.wait([task])


@contextlib.contextmanager
def held_answers(direct_url: str) -> Iterator[HeldAnswers]:
    """Create a link to the ZooKeeper at `direct_url`."""
    parsed = parse_url(direct_url)
    assert isinstance(parsed, ZooKeeperUrl)
    proxies = Proxies()
    try:
        proxy = proxies.before(parsed.hosts[0])
        yield HeldAnswers(direct_url, str(replace(parsed, hosts=(proxy.address,))), proxy)
    finally:
        proxies.close()
