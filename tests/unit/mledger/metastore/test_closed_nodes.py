"""Reads of many nodes of which some are closed."""

import pytest

from mledger.metastore.closed_nodes import all_or_error, read_open
from mledger.metastore.errors import MetadataAccessDenied, StoreUnavailable
from tests.support.aio import run


def refusing(closed, at_once=2):
    """A read that refuses some nodes, and names so many of them."""
    asked = []

    async def read(paths):
        asked.append(list(paths))
        refused = [path for path in paths if path in closed][:at_once]
        if refused:
            raise MetadataAccessDenied("closed", refused[0], refused)
        return [None if path == "none" else path.upper() for path in paths]

    return read, asked


def test_open_nodes_are_read_and_closed_ones_named():
    read, asked = refusing({"b", "d", "e"})
    closed = set()
    assert run(read_open(read, ["a", "b", "none", "d", "e", "f"], closed)) == ["A", None, None, None, None, "F"]
    assert closed == {"b", "d", "e"}
    assert len(asked) == 3


def test_nothing_is_asked_for_nothing():
    read, asked = refusing(())
    assert run(read_open(read, [], set())) == []
    assert asked == []


def test_a_refusal_of_something_else_is_raised():
    async def read(_):
        raise MetadataAccessDenied("the login")

    with pytest.raises(MetadataAccessDenied):
        run(read_open(read, ["a"], set()))


def test_all_closed_nodes_are_in_one_error():
    assert all_or_error([1, None]) == [1, None]
    refused = [MetadataAccessDenied("a is closed", "a"), 1, MetadataAccessDenied("b", "b")]
    with pytest.raises(MetadataAccessDenied, match="a is closed") as caught:
        all_or_error(refused)
    assert (caught.value.path, caught.value.closed) == ("a", {"a", "b"})
    with pytest.raises(StoreUnavailable):
        all_or_error([*refused, StoreUnavailable("away")])
