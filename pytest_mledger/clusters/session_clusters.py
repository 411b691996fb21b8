"""The clusters of a session: each starts when the first test needs it, and all tests with the same options share it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mledger.metastore.errors import ZooKeeperNotFound
from pytest_mledger.clusters.cluster import RunningCluster
from pytest_mledger.clusters.cluster_options import ClusterOptions, InvalidClusterOption, owner_settings, plan_options
from pytest_mledger.servers.processes import ClusterFailed

_CI_VARIABLES = ("CI", "BUILD_NUMBER")  # pytest's own


class SessionClusters:
    """Returns running clusters by their options; its context ends them all."""

    def __init__(self, make_directory: Callable[[], Path], defaults: ClusterOptions) -> None:
        """`make_directory` creates the directory of each cluster; `defaults` are the session's options."""
        self._make_directory, self.defaults = make_directory, defaults
        self._exits = contextlib.ExitStack()
        self._started: dict[tuple[int, str], RunningCluster | ClusterFailed] = {}
        self._given: dict[ClusterOptions, RunningCluster] = {}

    def __enter__(self) -> SessionClusters:
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def get(self, **options: Any) -> RunningCluster:
        """The cluster for these arguments of the marker; it is started unless it is running already.

        If ZooKeeper or Java is missing, a test that needs it is skipped, or fails in CI. UsageError, ClusterFailed.
        """
        try:
            return self.cluster(plan_options(self.defaults, options))
        except InvalidClusterOption as error:
            raise pytest.UsageError(f"mledger_clusters.get: {error}") from None

    def cluster(self, options: ClusterOptions, test: str = "this test") -> RunningCluster:
        """The cluster of these options, for `test`. Settings apply to clients, so they need no other servers."""
        cluster = self._given.get(options)
        if cluster is None:
            settings = owner_settings(options)
            try:
                running = self._running(options.bookies, options.metadata)
            except ZooKeeperNotFound as error:
                _leave_out(f"{test} needs a real ZooKeeper, and there is none: {error}")
            if settings is not None:
                running = running.with_settings(settings, dict(options.settings))
            cluster = self._given[options] = running
        return cluster

    def _running(self, bookies: int, metadata: str) -> RunningCluster:
        """The servers, started once; a start that failed is not repeated for every test."""
        started = self._started.get((bookies, metadata))
        if started is None:
            try:
                started = self._exits.enter_context(RunningCluster.start(self._make_directory(), bookies, metadata))
            except ClusterFailed as error:
                started = error
            self._started[bookies, metadata] = started
        if isinstance(started, ClusterFailed):
            raise started
        return started


def _leave_out(reason: str) -> None:
    """Skip the test, or fail it in CI, where nobody would notice the skip."""
    if any(os.environ.get(name) for name in _CI_VARIABLES):
        pytest.fail(f"{reason}\nIn CI this is an error, not a skip.", pytrace=False)
    pytest.skip(reason)
