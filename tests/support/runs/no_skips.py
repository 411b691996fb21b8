"""With MLEDGER_CI set, a test that needs Maven, Go, Java, strace, Docker or the like fails instead of being skipped."""

import os
from collections.abc import Generator
from typing import Any

import pytest

NEVER_SKIPPED = ("browser", "clients", "interop", "strace", "containers", "prometheus", "spark")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, pytest.TestReport]:
    """Turn a skip of a marked test into a failure."""
    report: pytest.TestReport = yield
    if os.environ.get("MLEDGER_CI") and report.skipped and any(item.get_closest_marker(m) for m in NEVER_SKIPPED):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} may not be skipped in CI: {report.longrepr}"
    return report
