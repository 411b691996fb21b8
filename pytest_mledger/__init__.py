"""The pytest plugin of the distribution: a running cluster for your tests (`docs/how-to/testing.md`)."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_mledger.clusters.cluster import Bookie, RunningCluster
    from pytest_mledger.clusters.owner import Owner
    from pytest_mledger.clusters.session_clusters import SessionClusters
    from pytest_mledger.servers.program import Program

__all__ = ["Bookie", "Owner", "Program", "RunningCluster", "SessionClusters"]

_HOMES = {
    "Bookie": "pytest_mledger.clusters.cluster",
    "Owner": "pytest_mledger.clusters.owner",
    "Program": "pytest_mledger.servers.program",
    "RunningCluster": "pytest_mledger.clusters.cluster",
    "SessionClusters": "pytest_mledger.clusters.session_clusters",
}
"""Where each public name is. It is imported when it is used: pytest loads this package for every project's tests."""


def __getattr__(name: str) -> Any:
    """Import the module of a public name. Raises AttributeError for other names."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__})
