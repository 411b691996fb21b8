"""Which connections take the last files that a process can open."""

import resource
import socket

import pytest

from mledger.metastore.runtime.network.connection_limit import ConnectionLimit, takes_last_files
from tests.support.aio import run


def limited(monkeypatch, soft):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))


class OpenedSocket:
    """A socket with a file number of the test's choice."""

    def __init__(self, number):
        self.number = number

    def fileno(self):
        return self.number


@pytest.mark.parametrize(
    ("soft", "number", "last"),
    [
        (10_512, 9_999, False),
        (10_512, 10_000, True),
        (1024, 511, False),
        (1024, 512, True),
        (64, 31, False),
        (64, 32, True),
    ],
)
def test_the_rest_of_the_process_keeps_512_files_or_half_of_them(monkeypatch, soft, number, last):
    limited(monkeypatch, soft)
    assert takes_last_files(OpenedSocket(number)) is last


def test_without_a_limit_there_are_no_last_files(monkeypatch):
    limited(monkeypatch, resource.RLIM_INFINITY)
    assert not takes_last_files(OpenedSocket(1 << 30))


def test_a_connection_without_a_socket_takes_no_file(monkeypatch):
    limited(monkeypatch, 0)
    assert not takes_last_files(None)
    with socket.socket() as opened:
        assert takes_last_files(opened)


@pytest.mark.parametrize(("leaves", "admitted"), [(True, False), (False, True)])
def test_a_part_of_a_process_leaves_its_last_files_to_the_others(monkeypatch, leaves, admitted):
    limited(monkeypatch, 64)

    async def main():
        gate = ConnectionLimit(2, leaves_files=leaves)
        assert gate.enter("early", OpenedSocket(31))
        assert gate.enter("late", OpenedSocket(32)) is admitted
        assert gate.inside == 1 + admitted

    run(main())
