"""Values of all kinds in a line of a log."""

import enum
import json
import math
from collections import OrderedDict, deque
from pathlib import Path

import numpy as np
import pytest

from mledger.bookie.errors import Code
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.logs.log_line import LONGEST, plain, text_line


class Answer(enum.Enum):
    YES = "yes"


class FlagPair(enum.Flag):
    ONE = 1
    TWO = 2


class Unprintable:
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5),
        (1 << 70, 1 << 70),
        (np.int64(7), 7),
        (True, True),
        (None, None),
        (1.5, 1.5),
        (math.inf, "inf"),
        (b"\x00\xff", "00ff"),
        (bytearray(b"a"), "61"),
        (memoryview(b"a"), "61"),
        (Code.FENCED, "FENCED"),
        (Answer.YES, "YES"),
        (FlagPair.ONE | FlagPair.TWO, "ONE|TWO"),
        (KeyError("x"), "KeyError: 'x'"),
        (Position(5, 3), "5:3"),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        ((1, b"a"), [1, "61"]),
        (deque([1]), [1]),
        (OrderedDict(a={"b": (Answer.YES,)}), {"a": {"b": ["YES"]}}),
        ({1: "a", "1": "b", b"x": "c"}, {"1": "a", "1_": "b", "78": "c"}),
        (Path("/a b"), "/a b"),
        (Unprintable(), "<Unprintable, of which str raises RuntimeError>"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_kind_of_value_has_one_form_in_json(value, expected):
    found = plain(value)
    assert found == expected
    assert json.loads(json.dumps(found, allow_nan=False)) == expected


def test_a_value_that_contains_itself_is_cut_off():
    value = []
    value.append(value)
    assert json.dumps(plain(value)).count("[") < 100


def test_lists_of_scalars_are_written_with_commas_and_deeper_ones_as_json():
    assert text_line({"bookies": ["b1:3181", "b2:3181"], "none": [], "deep": {"a": [1]}}) == (
        'bookies=b1:3181,b2:3181 none="" deep="{\\"a\\":[1]}"'
    )


@pytest.mark.parametrize("made", [str, ValueError])
def test_a_text_that_is_too_long_is_cut_off(made):
    line = text_line({"name": made("n" * (LONGEST + 1)), "next": 1})
    assert "n… (" in line
    assert (len(line) < LONGEST + 100, line.endswith(" next=1")) == (True, True)
    assert text_line({"name": "n" * LONGEST}) == "name=" + "n" * LONGEST
