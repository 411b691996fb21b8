import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.metastore.errors import InvalidSetting
from mledger.metastore.runtime.properties import parse_properties

CASES = [
    ("a=1", [("a", "1")]),
    ("a:1\r\nb 2\rc", [("a", "1"), ("b", "2"), ("c", "")]),
    ("  a\t=  1  ", [("a", "1  ")]),
    ("# a=1\n  ! b=2\n\n \f\nc=#3!", [("c", "#3!")]),
    ("a = = 1", [("a", "= 1")]),
    ("a\\ b\\=c\\:d=1", [("a b=c:d", "1")]),
    ("a=1\\\n   2\\\n# 3", [("a", "12# 3")]),
    ("a=1\\\\\nb=2", [("a", "1\\"), ("b", "2")]),
    ('a=\\t\\n\\r\\f\\u00e9\\z\\"', [("a", '\t\n\r\fézZ"'.replace("Z", ""))]),
    ("a=1\\", [("a", "1")]),
    ("a\\\n=1", [("a", "1")]),
    ("a=1\na=2", [("a", "1"), ("a", "2")]),
    ("=1", [("", "1")]),
    ("", []),
]


@pytest.mark.parametrize(("text", "found"), CASES)
def test_a_properties_file_is_read_as_java_reads_it(text, found):
    assert [(item.key, item.value) for item in parse_properties(text)] == found


def test_each_property_knows_the_line_where_it_begins():
    found = parse_properties("# one\na=1\\\n 2\n\nb=3\n")
    assert [(item.key, item.line) for item in found] == [("a", 2), ("b", 5)]


def test_a_malformed_escape_is_refused_with_file_and_line():
    with pytest.raises(InvalidSetting, match=r"x\.conf:2: .*four hexadecimal digits"):
        parse_properties("a=1\nb=\\u12", "x.conf")


def escaped(text: str, *, key: bool) -> str:
    """As Java's Properties.store writes it."""
    special = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
    special |= {c: "\\" + c for c in "=:#!"}
    out = [special.get(c, c if " " <= c <= "~" else "".join(f"\\u{u:04X}" for u in [ord(c)])) for c in text]
    if key:
        out = ["\\ " if c == " " else c for c in out]
    elif out and out[0] == " ":
        out[0] = "\\ "
    return "".join(out)


words = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(words.filter(bool), words), max_size=6))
def test_what_java_would_store_is_read_back(pairs):
    text = "\n".join(f"{escaped(key, key=True)}={escaped(value, key=False)}" for key, value in pairs)
    assert [(item.key, item.value) for item in parse_properties(text)] == pairs


@given(st.text("ab=: \t\\#!u0\n\r", max_size=40))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(InvalidSetting):
        assert all(item.line > 0 for item in parse_properties(text))
