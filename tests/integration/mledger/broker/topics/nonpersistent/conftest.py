"""Names of non-persistent topics."""

import itertools

import pytest

_topics = itertools.count(1)


@pytest.fixture
def topic():
    """The name of a non-persistent topic that no other test has."""
    return f"non-persistent://public/default/live-{next(_topics)}"
