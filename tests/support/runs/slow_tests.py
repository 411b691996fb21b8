"""With `--skip-slow`, as `make test` has it unless SLOW=1, the tests marked `slow` are skipped: CI runs them.

pytest takes options from the conftest at the root of what it runs only, which imports these hooks.
"""

import pytest

REASON = "takes long: CI runs it, and `make test SLOW=1`"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--skip-slow`."""
    parser.addoption("--skip-slow", action="store_true", help="skip tests marked slow; CI does not")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark slow tests as skipped, by name and with the reason."""
    if config.getoption("--skip-slow"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason=REASON))
