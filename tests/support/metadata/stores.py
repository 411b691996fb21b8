"""Runs a test on every metadata store: in memory, in a real ZooKeeper, and in RocksDB behind its socket."""

import contextlib
import functools
import itertools
import signal
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from mledger.metastore.url import open_store
from tests.support.aio import run

_numbers = itertools.count(1)


@pytest.fixture(params=["memory", "rocksdb", "zookeeper"])
def any_metadata_url(request):
    """The URL of an empty store, once for each kind of store."""
    if request.param == "memory":
        return f"memory:test-{next(_numbers)}"
    if request.param == "rocksdb":
        return request.getfixturevalue("rocksdb_url")
    return request.getfixturevalue("metadata_url")


@dataclass(frozen=True)
class OwnServer:
    """A metadata server that a test may kill and freeze. Errors name `place`, or say `nobody` if it does not serve."""

    url: str
    place: str
    nobody: str
    kill: Callable[[], object]
    restart: Callable[[], object]
    freeze: Callable[[], object]
    thaw: Callable[[], object]


@pytest.fixture(params=["rocksdb", "zookeeper"])
def own_server(request):
    """A server of this test's own, once for each kind of server."""
    if request.param == "rocksdb":
        process = request.getfixturevalue("metadata_process")
        return OwnServer(
            process.url,
            place=str(process.directory),
            nobody="no metadata server answers",
            kill=process.kill,
            restart=process.start,
            freeze=lambda: process.signal(signal.SIGSTOP),
            thaw=lambda: process.signal(signal.SIGCONT),
        )
    server = request.getfixturevalue("zookeeper_server")
    return OwnServer(
        server.url,
        place=server.connect_string,
        nobody="no ZooKeeper answers",
        kill=server.kill,
        restart=server.restart,
        freeze=server.freeze,
        thaw=server.thaw,
    )


@contextlib.contextmanager
def impatient(store, seconds=0.3):
    """Make operations on an open store time out after so many seconds."""
    patience, store._timeout = store._timeout, seconds
    try:
        yield
    finally:
        store._timeout = patience


def with_store(test):
    """Turn a coroutine function into a test that runs on an open store of each kind."""

    def call(any_metadata_url):
        async def main():
            async with await open_store(any_metadata_url) as store:
                await test(store)

        run(main())

    return _named(call, test)


def with_two_stores(test):
    """Like `with_store`, with two sessions on the same tree."""

    def call(any_metadata_url):
        async def main():
            async with await open_store(any_metadata_url) as one, await open_store(any_metadata_url) as other:
                await test(one, other)

        run(main())

    return _named(call, test)


def _named(call, test):
    functools.update_wrapper(call, test)
    del call.__wrapped__  # pytest reads the arguments of `call`, not of `test`
    return call
