"""Cookies of all versions, and data that is no cookie."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.metastore.cluster.bookies import Cookie, decode_cookie, encode_cookie
from mledger.metastore.errors import RecordError

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t"), max_size=8)
directories = st.lists(texts, max_size=3).map(tuple)


@given(st.builds(Cookie, texts, texts, directories, st.none() | texts, st.none() | directories))
def test_a_cookie_is_read_back_as_written(cookie):
    assert decode_cookie(encode_cookie(cookie)) == cookie


def test_a_cookie_of_version_4_is_read_and_written_in_version_5():
    text = b'bookieHost: "h:1"\njournalDir: "j"\nledgerDirs: "1\\tl"\n'
    cookie = decode_cookie(b"4\n" + text)
    assert cookie == Cookie("h:1", "j", ("l",), version=4)
    assert encode_cookie(cookie) == b"5\n" + text


def test_a_cookie_of_version_3_is_three_lines():
    cookie = decode_cookie(b"3\nh:1\njournal\n2\ta\tb\n")
    assert cookie == Cookie("h:1", "journal", ("a", "b"), version=3)


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b"", "layout version"),
        (b"x\n", "layout version"),
        (b"2\nh:1\nj\n1\ta\n", "is 2"),
        (b"6\n", "is 6"),
        (b"3\nh:1\nj", "cut off"),
        (b"3\nh:1\nj\n3\ta\n", "as many directories"),
        (b'5\nbookieHost: "h', "cut off"),
        (b'5\nbookieHost: "h:1"\n', "lacks"),
        (b'5\nnewField: "h:1"\n', "newField"),
    ],
)
def test_an_invalid_cookie_is_refused(data, wrong):
    with pytest.raises(RecordError, match=wrong):
        decode_cookie(data, "VERSION")


def test_a_directory_with_a_tab_is_refused():
    with pytest.raises(RecordError, match="tab"):
        encode_cookie(Cookie("h:1", "j", ("a\tb",)))
