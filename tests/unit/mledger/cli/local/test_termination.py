"""Signals that end `mledger up` and `mledger down`."""

import signal

import pytest

from mledger.cli.local.termination import ENDS, interrupted_by_termination


@pytest.fixture
def handlers():
    """Puts back what handles the signals."""
    before = {each: signal.getsignal(each) for each in ENDS}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", ENDS)
def test_a_termination_interrupts_the_block_as_ctrl_c_does(number):
    signal.signal(number, signal.SIG_DFL)
    with pytest.raises(KeyboardInterrupt), interrupted_by_termination():
        signal.raise_signal(number)
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.usefixtures("handlers")
def test_a_signal_that_is_ignored_stays_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupted_by_termination():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
