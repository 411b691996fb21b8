"""Async fixtures in the event loop of the requesting test: that of pytest-asyncio, of any scope, or of anyio.

Both plugins accept async generators as fixtures, in different ways. anyio takes those of a test with `anyio_backend`.
pytest-asyncio, unless configured to take all, takes those with its decorator, and runs them in the loop of the scope
that the decorator names. So the public fixtures are plain functions. They find out which plugin runs the test, register
async fixtures for it on first use, and request their values.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import AsyncIterator, Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mledger import Cluster, ManagedLedger
    from pytest_mledger.clusters.cluster import RunningCluster

CLIENT, TOPIC = "client", "topic"
ANYIO = "anyio"
ANYIO_BACKEND = "anyio_backend"
ASYNCIO_MARKER = "asyncio"
ASYNCIO_PLUGIN = "pytest_asyncio.plugin"
_TEST_LOOP_SCOPE = "asyncio_default_test_loop_scope"


def value_in_loop(request: pytest.FixtureRequest, what: str) -> Any:
    """The value of the async fixture `what`, set up and torn down in the loop of the requesting test."""
    loop = _loop(request)
    plugins, name = request.config.pluginmanager, f"mledger fixtures in loops of {loop}"
    if not plugins.has_plugin(name):
        plugins.register(_fixtures(loop, name), name)
    return request.getfixturevalue(_fixture_name(what, loop))


def _fixtures(loop: str, name: str) -> ModuleType:
    """A pytest plugin with the async fixtures for one kind of loop; it is a module because pytest expects that."""

    async def client(mledger_cluster: RunningCluster) -> AsyncIterator[Cluster]:
        async with mledger_cluster.open() as cluster:
            yield cluster
            await asyncio.to_thread(mledger_cluster.mend)  # a clean close needs the servers that the test killed

    async def topic(
        mledger_cluster: RunningCluster, mledger_client: Cluster, mledger_namespace: str
    ) -> AsyncIterator[ManagedLedger]:
        topic = await mledger_client.open_topic(f"persistent://{mledger_namespace}/topic", create=True)
        yield topic
        await asyncio.to_thread(mledger_cluster.mend)
        await topic.close()

    decorate = _decorator(loop)
    plugin = ModuleType(name)
    for function in (client, topic):
        setattr(plugin, function.__name__, decorate(function, name=_fixture_name(function.__name__, loop)))
    return plugin


def _fixture_name(what: str, loop: str) -> str:
    return f"_mledger_{what}_in_{loop}_loop"


def _decorator(loop: str) -> Callable[..., Any]:
    if loop == ANYIO:
        return pytest.fixture
    import pytest_asyncio  # installed, because it runs the test

    return functools.partial(pytest_asyncio.fixture, loop_scope=loop)


def _loop(request: pytest.FixtureRequest) -> str:
    """The loop that runs the test: `anyio`, or the scope of pytest-asyncio's loop."""
    if ANYIO_BACKEND in request.fixturenames:  # if both plugins could run the test, anyio does
        said = request.getfixturevalue(ANYIO_BACKEND)
        backend = said if isinstance(said, str) else said[0]
        if backend != "asyncio":
            pytest.fail(
                f"mledger runs on asyncio, not on {backend}: have a fixture {ANYIO_BACKEND} return 'asyncio'",
                pytrace=False,
            )
        return ANYIO
    plugin = sys.modules.get(ASYNCIO_PLUGIN)
    marker = request.node.get_closest_marker(ASYNCIO_MARKER)
    if marker is not None and plugin is not None and request.config.pluginmanager.is_registered(plugin):
        scope = marker.kwargs.get("loop_scope") or marker.kwargs.get("scope")
        return str(scope or request.config.getini(_TEST_LOOP_SCOPE))
    pytest.fail(
        f"{request.node.name} uses {request.fixturename}, which needs a test that pytest-asyncio or anyio runs: "
        "mark it with @pytest.mark.asyncio or @pytest.mark.anyio, or use `async with mledger_cluster.open()`",
        pytrace=False,
    )
