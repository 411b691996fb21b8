"""An event loop on simulated time, shared by all simulated processes.

A handle belongs to the process that scheduled it. Handles of a dead process never run; those of a frozen one wait. Work
for threads runs as a whole at one moment. The order of handles depends on nothing but the schedule: futures and tasks
hash by the order of their creation, so that sets of them iterate alike everywhere.
"""

import asyncio
import contextlib
import contextvars
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from heapq import heappop, heappush
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

EPOCH_S = 1_700_000_000.0
"""The wall clock when a simulation begins, in seconds since 1970."""


class Killed(BaseException):
    """The simulated process ended while it ran."""


class Process:
    """A simulated process. Made by `SimLoop.process`."""

    def __init__(self, name: str, seed: str) -> None:
        self.name = name
        self.alive = True
        self.frozen = False
        self.wall_offset_s = 0.0
        self.threads_slow = 1.0
        """How much longer than usual the end of work for threads is told."""
        self.disk_slow = 1.0
        """How much longer than usual syncs take."""
        self.rng = Random(f"{seed}/{name}")
        self.backlog: deque[SimHandle] = deque()
        self.on_death: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return self.name


class SimHandle(list[Any]):
    """A callback that is scheduled: when, order, process, callback (None: cancelled), and arguments.

    A list, as millions of them are made, and heaps compare lists fast. It has no context: nothing here sets a variable
    of one.
    """

    __slots__ = ()

    def cancel(self) -> None:
        """Never run it."""
        self[_CALLBACK] = None

    def cancelled(self) -> bool:
        """Whether it will never run."""
        return self[_CALLBACK] is None

    def when(self) -> float:
        """The simulated time at which it runs."""
        return float(self[0])

    __hash__ = object.__hash__


_CALLBACK = 3
_numbers = itertools.count()
_CLOSES = 50
_TIMERS_BETWEEN_CHECKS = 4


def _close(coroutine: Any) -> None:
    """Close a coroutine whose finally blocks may await something, again and again."""
    for _ in range(_CLOSES):
        with contextlib.suppress(BaseException):
            coroutine.close()
            return


def _tell(future: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:
    """Give a future what its work came to."""
    if future.cancelled():
        return
    if failure is not None:
        future.set_exception(failure)
    else:
        future.set_result(result)


class SimFuture(asyncio.Future[T]):
    """A future that hashes by the order of creation. Made by `SimLoop.create_future`."""

    __slots__ = ("number",)
    number: int

    def __hash__(self) -> int:
        return self.number


class SimTask(asyncio.Task[T]):
    """A task that hashes by the order of creation. Made by `SimLoop.create_task`."""

    number: int

    def __init__(self, coro: Coroutine[Any, Any, T], *, loop: "SimLoop", name: str) -> None:
        self.number = next(_numbers)  # at once: asyncio may hash it while it is made
        super().__init__(coro, loop=loop, name=name)

    def __hash__(self) -> int:
        return self.number


class SimLoop(asyncio.AbstractEventLoop):
    """Runs handles in the order of simulated time."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.now = 0.0
        self.steps = 0
        self.world = Process("world", seed)
        self.current = self.world
        self.errors: list[tuple[Process, BaseException]] = []
        self._ready: deque[SimHandle] = deque()
        self._timers: list[SimHandle] = []
        self._order = itertools.count()
        self._tasks: list[asyncio.Task[Any]] = []
        self.ended = False
        self._listen: Callable[..., Any] | None = None
        self._connect: Callable[..., Any] | None = None
        global _numbers
        _numbers = itertools.count()

    # Processes

    def process(self, name: str) -> Process:
        """A new process called `name`."""
        return Process(name, self.seed)

    def kill(self, process: Process) -> None:
        """End a process at once; it runs nothing any more."""
        if not process.alive:
            return
        process.alive = False
        process.backlog.clear()
        for tell in process.on_death:
            tell()

    def freeze(self, process: Process) -> None:
        """Stop a process until `thaw`: SIGSTOP."""
        process.frozen = True

    def thaw(self, process: Process) -> None:
        """Let a frozen process run on."""
        process.frozen = False
        while process.backlog:
            self._ready.append(process.backlog.popleft())

    def run_as(self, process: Process, callback: Callable[..., object], *args: object) -> None:
        """Call something soon, as `process`."""
        self._ready.append(SimHandle((0.0, 0, process, callback, args)))

    def later_as(self, process: Process, delay_s: float, callback: Callable[..., object], *args: object) -> SimHandle:
        """Call something after a delay, as `process`."""
        when = self.now + delay_s if delay_s > 0.0 else self.now
        handle = SimHandle((when, next(self._order), process, callback, args))
        heappush(self._timers, handle)
        return handle

    def start(self, process: Process, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Begin a task of `process`."""
        self.run_as(process, lambda: self.create_task(work()))

    # Running

    def run_until(self, done: Callable[[], bool], deadline: float = float("inf")) -> bool:
        """Run until `done`, or until simulated time passes `deadline`; whether it is done."""
        ready, timers = self._ready, self._timers
        asyncio._set_running_loop(self)
        try:
            while not done():
                for _ in range(_TIMERS_BETWEEN_CHECKS):
                    if not ready:
                        if not timers or timers[0][0] > deadline:
                            return done()
                        handle = heappop(timers)
                        if handle[0] > self.now:
                            self.now = handle[0]
                        ready.append(handle)
                    self._run_ready()  # all of them: how many callbacks asyncio takes depends on its version
            return True
        finally:
            asyncio._set_running_loop(None)

    def _run_ready(self) -> None:
        ready, steps = self._ready, 0
        while ready:
            handle = ready.popleft()
            _, _, process, callback, args = handle
            if not process.alive:
                continue
            if process.frozen:
                process.backlog.append(handle)
                continue
            steps += 1
            if callback is None:
                continue
            self.current = process
            try:
                callback(*args)
            except Killed:
                self.kill(process)
            except BaseException as error:
                self.errors.append((process, error))
        self.steps += steps

    def abandon(self) -> None:
        """End every process, and what their tasks would still do; nothing runs after this."""
        self.ended = True
        self._ready.clear()
        self._timers.clear()
        self.current = Process("nobody", self.seed)
        self.current.alive = False
        asyncio._set_running_loop(self)
        try:
            for task in self._tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                if not task.done():
                    _close(task.get_coro())
        finally:
            asyncio._set_running_loop(None)
        self._tasks.clear()

    # What asyncio asks for

    def time(self) -> float:
        """Simulated seconds."""
        return self.now

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimHandle:  # type: ignore[override]
        """As an event loop."""
        handle = SimHandle((0.0, 0, self.current, callback, args))
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimHandle:  # type: ignore[override]
        """As an event loop."""
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimHandle:  # type: ignore[override]
        """As an event loop."""
        handle = SimHandle((when, next(self._order), self.current, callback, args))
        heappush(self._timers, handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        """As an event loop."""
        future: SimFuture[Any] = SimFuture(loop=self)
        future.number = next(_numbers)
        return future

    def create_task(self, coro: Any, *, name: str | None = None, context: Any = None, **_: Any) -> asyncio.Task[Any]:
        """As an event loop."""
        task: asyncio.Task[Any] = SimTask(coro, loop=self, name=name or "task")
        self._tasks.append(task)  # kept: a dead process's tasks must not run their finally blocks
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run a function at one later moment."""
        future, process = self.create_future(), self.current
        took = process.rng.expovariate(2000.0)
        self.later_as(process, took, self._carry_out, future, func, args, took * (process.threads_slow - 1.0))
        return future

    def _carry_out(
        self, future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...], told_after_s: float
    ) -> None:
        if future.cancelled():
            return
        result, failure = None, None
        try:
            result = func(*args)
        except Killed:
            raise
        except BaseException as error:
            failure = error
        if told_after_s:
            self.later_as(self.current, told_after_s, _tell, future, result, failure)
        else:
            _tell(future, result, failure)

    get_debug = bool  # type: ignore[assignment]  # False, without a call of Python for every future

    def is_running(self) -> bool:
        """As an event loop."""
        return True

    def is_closed(self) -> bool:
        """As an event loop."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Note what nobody caught."""
        error = context.get("exception")
        if error is not None and not self.ended and self.current.alive:
            self.errors.append((self.current, error))

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:
        """Simulated processes get no signals."""

    def remove_signal_handler(self, sig: int) -> bool:
        """Simulated processes get no signals."""
        return False

    def use_network(self, listen: Callable[..., Any], connect: Callable[..., Any]) -> None:
        """Have a network open servers and connections."""
        self._listen, self._connect = listen, connect

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:  # type: ignore[override]
        """Listen in the simulated network."""
        assert self._listen is not None
        return self._listen(protocol_factory, host, port, options.get("sock"))

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # type: ignore[override]
        """Connect through the simulated network."""
        assert self._connect is not None
        return await self._connect(protocol_factory, host, port)
