"""The topics open in this process, and those being opened: one opening serves all who ask for a topic meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct, field

from mledger.config import ManagedLedgerConfig
from mledger.errors import ManagedLedgerClosed, OwnedElsewhere, TopicExists, TopicNotFound
from mledger.events import EventSink, ignore_events
from mledger.ledgers.background import outcome
from mledger.ledgers.ledger_factory import StepHook, ignore_steps
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.paths import TopicName
from mledger.topics.managed_ledger import ManagedLedger
from mledger.topics.state import TopicState

USABLE = (TopicState.OPEN, TopicState.TERMINATED)


class OpenRequest(Struct, frozen=True):
    """How to open a topic: the arguments of `Cluster.open_topic`."""

    config: ManagedLedgerConfig | None = None
    create: bool = False
    take_over: bool = False
    trim: bool | None = None
    events: EventSink = field(default=ignore_events)
    on_step: StepHook = field(default=ignore_steps)

    def may_succeed_after(self, failed: "OpenRequest", error: MledgerError) -> bool:
        """Whether this request permits what `failed` did not, so that it is worth an attempt of its own."""
        if isinstance(error, TopicNotFound):
            return self.create and not failed.create
        return isinstance(error, OwnedElsewhere) and self.take_over and not failed.take_over


OpenWork = Callable[[OpenRequest], Coroutine[Any, Any, ManagedLedger]]


class TopicRegistry:
    """Every topic of one process, once; those that are open are in `opened`, by managed-ledger name."""

    def __init__(self) -> None:
        self.opened: dict[str, ManagedLedger] = {}
        self._openings: dict[str, _Opening] = {}
        self._configs: dict[str, ManagedLedgerConfig | None] = {}
        self._sessions_ended = 0
        self._closed = False

    async def open(
        self, topic: TopicName, request: OpenRequest, work: OpenWork, *, exclusive: bool = False
    ) -> ManagedLedger:
        """The topic, open already, being opened by another caller, or opened by `work`.

        The first caller's `request` determines how. Another caller whose own request permits more
        tries again where the first failed. A topic that was fenced or is being closed is opened
        anew. Cancelling a caller ends the opening only if nobody else waits for it.

        Raises:
            TopicExists: with `exclusive` or another configuration, if it is open or being opened.
        """
        name = topic.managed_ledger_name
        while True:
            if self._closed:
                raise ManagedLedgerClosed(f"{topic} is not opened: the cluster is closed")
            opening = self._openings.get(name)
            if opening is not None and opening.given_up is not None:
                await asyncio.wait([opening.given_up])
                self._remove(name, opening)
                continue
            if opening is not None:
                self._check_shared(topic, request, opening.request.config, exclusive=exclusive)
            elif (already := self.opened.get(name)) is not None and already.state in USABLE:
                self._check_shared(topic, request, self._configs.get(name), exclusive=exclusive)
                return already
            mine = opening is None
            if opening is None:
                opening = self._openings[name] = _Opening(request, self._open_alone(name, request, work))
            try:
                return await self._join(name, opening)
            except (TopicNotFound, OwnedElsewhere) as error:
                if mine or not request.may_succeed_after(opening.request, error):
                    raise

    def session_renewed(self) -> None:
        """Make every topic recreate its owner node, which was lost with the previous session."""
        self._sessions_ended += 1
        for opened in self.opened.values():
            opened.session_renewed()

    async def close(self) -> None:
        """Open nothing more, and end the openings under way."""
        self._closed = True
        given_up = [opening.give_up() for opening in self._openings.values()]
        if given_up:
            await asyncio.wait(given_up)

    def forget(self, name: str) -> ManagedLedger | None:
        """Remove the topic from those open here, and return it, if it is open."""
        self._configs.pop(name, None)
        return self.opened.pop(name, None)

    async def _open_alone(self, name: str, request: OpenRequest, work: OpenWork) -> ManagedLedger:
        if already := self.opened.get(name):
            await already.closed()
        sessions_ended = self._sessions_ended
        managed_ledger = await work(request)
        self.opened[name], self._configs[name] = managed_ledger, request.config
        managed_ledger.on_end(lambda: self._ended(managed_ledger))
        if sessions_ended != self._sessions_ended:  # during the open: `session_renewed` did not reach it
            managed_ledger.session_renewed()
        return managed_ledger

    async def _join(self, name: str, opening: "_Opening") -> ManagedLedger:
        try:
            return await opening.join()
        finally:
            if opening.failed or not opening.callers:
                self._remove(name, opening)

    def _remove(self, name: str, opening: "_Opening") -> None:
        if self._openings.get(name) is opening:
            del self._openings[name]

    def _ended(self, ended: ManagedLedger) -> None:
        """Count the topic no longer among those open here, unless it was opened again."""
        if self.opened.get(ended.name) is ended:
            self.forget(ended.name)

    @staticmethod
    def _check_shared(
        topic: TopicName, request: OpenRequest, config: ManagedLedgerConfig | None, *, exclusive: bool
    ) -> None:
        if exclusive:
            raise TopicExists(f"{topic} is open here already: use that one, or close it first")
        if request.config is not None and request.config != config:
            raise TopicExists(
                f"{topic} is open here already, with another configuration: ask for it without one, or close it first"
            )


class _Opening:
    """One opening, and how many callers wait for it."""

    def __init__(self, request: OpenRequest, work: Coroutine[Any, Any, ManagedLedger]) -> None:
        self.request = request
        self.callers = 0
        self.given_up: asyncio.Task[None] | None = None
        """Ends the opening once nobody waits for it any more."""
        self._received = False
        self._task = asyncio.get_running_loop().create_task(work)

    @property
    def failed(self) -> bool:
        """Whether it ended without an open topic."""
        return self._task.done() and (self._task.cancelled() or self._task.exception() is not None)

    async def join(self) -> ManagedLedger:
        """Wait for the topic. The last caller that is cancelled ends the opening and leaves no owner behind."""
        self.callers += 1
        try:
            opened = await outcome(self._task, _interrupted)
            self._received = True
            return opened
        except asyncio.CancelledError:
            if self.callers == 1 and not self._received:
                await asyncio.wait([self.give_up()])
            raise
        finally:
            self.callers -= 1

    def give_up(self) -> "asyncio.Task[None]":
        """End it, since nobody waits for the topic any more; returns the task that does."""
        if self.given_up is None:
            self._task.cancel()
            self.given_up = asyncio.get_running_loop().create_task(self._end())
        return self.given_up

    async def _end(self) -> None:
        await asyncio.wait([self._task])
        if not self._received and not self.failed:
            await self._task.result().abandon()


def _interrupted() -> MledgerError:
    return ManagedLedgerClosed("the topic was not opened: the cluster was closed meanwhile")
