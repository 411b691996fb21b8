"""Paths of nodes."""

import pytest

from mledger.metastore.errors import InvalidName
from mledger.metastore.records.node_path import (
    LONGEST_PATH,
    ancestors_of,
    check_element,
    check_operation,
    check_path,
    parent_of,
)
from mledger.metastore.store import Check, Create, Delete, Put


@pytest.mark.parametrize("path", ["/", "/a", "/a/b.c", "/...", "/.a", "/a..", "/a b", "/ü", "/persistent%3A%2F%2F"])
def test_valid_paths(path):
    assert check_path(path) == path


@pytest.mark.parametrize(
    "path", ["", "a", "a/b", "/a/", "//", "//a", "/a//b", "/.", "/..", "/a/./b", "/a/../b", "/\x00", "/\x1f", "/\x7f"]
)
def test_invalid_paths(path):
    with pytest.raises(InvalidName) as caught:
        check_path(path)
    assert caught.value.path == path


@pytest.mark.parametrize("operation", [Create("/"), Delete("/"), Put("/a/", b"", 0), Check("a", 0)])
def test_operations_that_no_store_can_carry_out(operation):
    with pytest.raises(InvalidName) as caught:
        check_operation(operation)
    assert caught.value.path == operation.path


@pytest.mark.parametrize("operation", [Create("/a"), Delete("/a"), Put("/", b"", 0), Check("/", 0)])
def test_operations_that_a_store_can_carry_out(operation):
    check_operation(operation)


def test_parents_and_ancestors():
    assert [parent_of(path) for path in ("/", "/a", "/a/b/c")] == ["/", "/", "/a/b"]
    assert ancestors_of("/a/b/c") == ["/a", "/a/b"]
    assert ancestors_of("/a") == []


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "a\nb", "\ue000"])
def test_what_cannot_be_an_element_of_a_path_is_refused_by_name(text):
    assert check_element("a.b", "the topic 'a.b'") == "a.b"
    with pytest.raises(InvalidName, match="the topic cannot be the name of a node"):
        check_element(text, "the topic")


def test_a_path_that_is_too_long_is_not_repeated_in_the_error():
    assert check_path("/" + "n" * (LONGEST_PATH - 1))
    with pytest.raises(InvalidName, match="too long") as refused:
        check_path("/" + "n" * LONGEST_PATH)
    assert len(str(refused.value)) < 200
