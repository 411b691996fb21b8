"""The wheel in an environment of its own."""

import pytest

from tests.support.installed import Installed, build_wheel, install


@pytest.fixture(scope="session")
def installed(tmp_path_factory) -> Installed:
    """The distribution as users have it."""
    directory = tmp_path_factory.mktemp("installed")
    return install(build_wheel(directory / "build"), directory / "venv")
