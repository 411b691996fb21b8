"""The wheel in environments of its own."""

from pathlib import Path

import pytest

from tests.support.environments.installed import Installed, build_wheel, install, install_alone


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """The built distribution."""
    return build_wheel(tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory) -> Installed:
    """The distribution together with everything else that users may have."""
    return install(wheel, tmp_path_factory.mktemp("installed") / "venv")


@pytest.fixture(scope="session")
def installed_alone(wheel, tmp_path_factory) -> Installed:
    """The distribution as `pip install mledger` leaves it, without extras."""
    return install_alone(wheel, tmp_path_factory.mktemp("alone") / "venv")
