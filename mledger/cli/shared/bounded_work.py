"""--timeout for commands that do not run on an event loop: their work is interrupted as by Ctrl-C."""

import contextlib
import functools
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Concatenate, ParamSpec, TypeVar

from mledger.cli.shared.context import CommandContext, CommandTimeout

P = ParamSpec("P")
T = TypeVar("T")


@contextlib.contextmanager
def bounded(context: CommandContext) -> Iterator[None]:
    """Interrupt the body when --timeout expires; it ends as after Ctrl-C, which all commands can be ended by.

    Only the main thread can be interrupted. The signal is another one than that of Ctrl-C, which the commands of a
    shell's background ignore. Raises CommandTimeout.
    """
    main, seconds = threading.main_thread().ident, context.timeout_s
    if seconds is None or main is None or threading.get_ident() != main:
        yield
        return
    expired = threading.Event()

    def interrupt() -> None:
        expired.set()
        signal.pthread_kill(main, signal.SIGALRM)

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    former = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # nothing is sent from here on
    except BaseException as error:  # libraries make errors of their own of an interruption
        if not expired.is_set():
            raise
        raise CommandTimeout(f"not done within --timeout, {seconds:g} s") from error
    finally:
        signal.signal(signal.SIGALRM, former)


def within_timeout(command: Callable[Concatenate[CommandContext, P], T]) -> Callable[Concatenate[CommandContext, P], T]:
    """Have --timeout bound all of `command`."""

    @functools.wraps(command)
    def run(context: CommandContext, /, *args: P.args, **named: P.kwargs) -> T:
        with bounded(context):
            return command(context, *args, **named)

    return run
