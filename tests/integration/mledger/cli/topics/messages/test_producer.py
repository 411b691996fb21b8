"""`mledger topics produce` as a process of its own, whose stdin stays open."""

import signal
import sys
from subprocess import PIPE

import pytest

from tests.support.aio import HANG_S
from tests.support.cli import ROOT, ok
from tests.support.forked_python import ForkedPython
from tests.support.ports import environment_of_commands

ONE = ("--ensemble-size", "1", "--write-quorum", "1", "--ack-quorum", "1")


@pytest.fixture
def command(url):
    """Starts `mledger topics` with the words given, and stops it at the end."""
    started = []

    def start(*words: str) -> ForkedPython:
        environment = environment_of_commands() | {"PYTHONPATH": str(ROOT), "MLEDGER_METADATA": url}
        arguments = [sys.executable, "-m", "mledger.cli.main", "topics", *words]
        started.append(ForkedPython(arguments, env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=HANG_S)


def test_lines_are_published_while_stdin_stays_open_and_an_interrupt_ends_the_command(url, topic, command) -> None:
    ok("topics", "create", topic, *ONE, url=url)
    follower = command("read", topic, "--follow", "--first", "0:0", "--limit", "2")
    producer = command("produce", topic, "--raw", *ONE)
    producer.stdin.write(b"one\ntwo\nhalf a li")
    producer.stdin.flush()
    assert follower.communicate(timeout=HANG_S)[0] == b"one\ntwo\n"
    producer.send_signal(signal.SIGINT)
    producer.communicate(timeout=HANG_S)
    assert producer.returncode == 130
