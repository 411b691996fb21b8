"""Run a test over every metadata store: in memory, in a real ZooKeeper, and in RocksDB behind its socket."""

import contextlib
import functools
import itertools

import pytest

from mledger.metastore.url import open_store
from tests.support.aio import run

_numbers = itertools.count(1)


@pytest.fixture(params=["memory", "rocksdb", "zookeeper"])
def any_metadata_url(request):
    """The URL of an empty store, once of each kind."""
    if request.param == "memory":
        return f"memory:test-{next(_numbers)}"
    if request.param == "rocksdb":
        return request.getfixturevalue("rocksdb_url")
    return request.getfixturevalue("metadata_url")


@contextlib.contextmanager
def impatient(store, seconds=0.3):
    """Have operations on a store give up after so long; opening it took the time that it took."""
    patience, store._timeout = store._timeout, seconds
    try:
        yield
    finally:
        store._timeout = patience


def with_store(test):
    """Make a test of a coroutine function: it is given an open store, once of each kind."""

    def call(any_metadata_url):
        async def main():
            async with await open_store(any_metadata_url) as store:
                await test(store)

        run(main())

    return _named(call, test)


def with_two_stores(test):
    """As `with_store`, with two sessions on the same tree."""

    def call(any_metadata_url):
        async def main():
            async with await open_store(any_metadata_url) as one, await open_store(any_metadata_url) as other:
                await test(one, other)

        run(main())

    return _named(call, test)


def _named(call, test):
    functools.update_wrapper(call, test)
    del call.__wrapped__  # pytest asks for the arguments of `call`, not of `test`
    return call
