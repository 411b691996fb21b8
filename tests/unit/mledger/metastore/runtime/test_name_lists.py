"""Long lists of names in one line: the first of them, and how many there are besides."""

from mledger.metastore.runtime.name_lists import shorten


def test_the_others_are_counted():
    assert shorten(["a", "b", "c"], 2) == "a, b and 1 more"


def test_a_list_that_fits_is_whole():
    assert shorten(["a"], 2) == "a"


def test_a_large_number_is_grouped():
    assert shorten(["a"] * 1_001, 1) == "a and 1,000 more"
