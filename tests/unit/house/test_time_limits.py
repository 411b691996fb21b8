"""Waiting is limited by `TimeLimit`: asyncio's own limit does not work in the clean-up of a cancelled task (3.11.2)."""

from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_nothing_is_limited_by_asyncio_s_own_limit():
    allowed = ROOT / "mledger/metastore/runtime/network/time_limit.py"
    found = [
        str(path.relative_to(ROOT))
        for package in ("mledger", "pytest_mledger", "pyspark_mledger")
        for path in sorted((ROOT / package).rglob("*.py"))
        if path != allowed and "asyncio.timeout(" in path.read_text()
    ]
    assert not found, f"use TimeLimit of {allowed.relative_to(ROOT)} in {found}"
