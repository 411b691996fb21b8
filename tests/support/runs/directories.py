"""A run keeps no directory of what passed: hundreds of bookies reserve room for their files, and would fill the disk.

pytest itself removes the `tmp_path` of a test that passed (`tmp_path_retention_policy`), but keeps what wider fixtures
make with `tmp_path_factory` until the run ends.
"""

import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_made_by_fixtures: list[list[Path]] = []  # one list a fixture that is being set up, the innermost last


@pytest.fixture(scope="session")
def tmp_path_factory(tmp_path_factory: pytest.TempPathFactory) -> pytest.TempPathFactory:
    """pytest's own, whose directories are known as those of the fixture that made them."""
    mktemp = tmp_path_factory.mktemp

    def noted(basename: str, numbered: bool = True) -> Path:
        directory = mktemp(basename, numbered)
        if _made_by_fixtures:
            _made_by_fixtures[-1].append(directory)
        return directory

    tmp_path_factory.mktemp = noted  # type: ignore[method-assign]
    return tmp_path_factory


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Remove a fixture's directories after its teardown, unless a test failed meanwhile."""
    made, failed = [], request.session.testsfailed

    def remove() -> None:
        if request.session.testsfailed == failed:
            for directory in made:
                shutil.rmtree(directory, ignore_errors=True)

    if fixturedef.argname != "tmp_path":  # pytest's own policy applies there
        fixturedef.addfinalizer(remove)  # the first one registered runs last
    _made_by_fixtures.append(made)
    try:
        return (yield)
    finally:
        _made_by_fixtures.pop()
