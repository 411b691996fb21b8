"""--timeout of commands that run on no event loop."""

import signal
import threading

import pytest

from mledger.cli.shared.bounded_work import bounded, within_timeout
from mledger.cli.shared.context import CommandContext, CommandTimeout
from tests.support.aio import HANG_S

BRIEF = CommandContext(timeout_s=0.01)


def wait(context: CommandContext) -> None:
    threading.Event().wait(HANG_S)


def test_work_that_takes_longer_is_ended() -> None:
    with pytest.raises(CommandTimeout, match=r"not done within --timeout, 0\.01 s"):
        within_timeout(wait)(BRIEF)


def test_work_that_ignores_ctrl_c_is_ended_too() -> None:
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a shell
    try:
        with pytest.raises(CommandTimeout):
            within_timeout(wait)(BRIEF)
    finally:
        signal.signal(signal.SIGINT, former)


@pytest.mark.parametrize("seconds", [None, HANG_S])
def test_work_that_ends_in_time_is_left_alone(seconds) -> None:
    threads = threading.active_count()
    with bounded(CommandContext(timeout_s=seconds)):
        pass
    assert threading.active_count() == threads


def test_ctrl_c_is_no_timeout() -> None:
    former = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in a background
    try:
        with pytest.raises(KeyboardInterrupt), bounded(CommandContext(timeout_s=HANG_S)):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, former)


def test_work_in_another_thread_goes_on() -> None:
    ended = []

    def work() -> None:
        with bounded(BRIEF):
            ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(HANG_S)
    assert ended == [True]


def test_work_that_makes_an_error_of_the_interruption_is_ended_as_well() -> None:
    def work(context: CommandContext) -> None:
        try:
            wait(context)
        except KeyboardInterrupt:
            raise RuntimeError("Query interrupted") from None

    with pytest.raises(CommandTimeout):
        within_timeout(work)(BRIEF)
