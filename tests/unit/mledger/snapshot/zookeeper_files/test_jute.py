"""Single fields: texts outside the basic plane and marks in the owner field."""

import pytest

from mledger.snapshot.zookeeper_files.jute import (
    CONTAINER_OWNER,
    OPEN_ACL,
    Fields,
    JuteError,
    Znode,
    session_of,
    text,
    ttl_of,
    ttl_owner,
)


def node(path="/", owner=0, cversion=0, children=0):
    return Znode(path, b"", 0, 0, 0, 0, 0, cversion, 0, owner, 0, OPEN_ACL, children)


@pytest.mark.parametrize("value", ["", "/a", "/é雪", "a😀b"])
def test_a_text_in_utf_8_is_read(value):
    assert text(value.encode()) == value


def test_a_text_with_surrogates_as_java_writes_them_is_read():
    assert text("😀".encode("utf-16-be").decode("utf-16-be", "surrogatepass").encode()) == "😀"
    assert text(b"\xed\xa0\xbd\xed\xb8\x80") == "😀"


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(JuteError, match="not UTF-8"):
        Fields(b"\0\0\0\1\xff").text()


def test_lengths_beyond_the_record_are_refused():
    with pytest.raises(JuteError, match="does not fit"):
        Fields(b"\0\0\0\5abc").buffer()
    with pytest.raises(JuteError, match="impossible count"):
        Fields(b"\x7f\xff\xff\xff").texts()


@pytest.mark.parametrize("ttl", [1, 3_600_000, (1 << 40) - 1])
def test_a_time_to_live_is_marked_in_the_owner(ttl):
    owner = ttl_owner(ttl)
    assert owner < 0
    assert (ttl_of(owner), session_of(owner)) == (ttl, 0)
    assert node(owner=owner).ttl_ms == ttl


def test_a_container_is_marked_in_the_owner():
    assert node(owner=CONTAINER_OWNER).container
    assert node(owner=CONTAINER_OWNER).session == 0
    assert not node().container


@pytest.mark.parametrize("session", [1, 0x100001964FF0000, -(1 << 63) + 1, (0xFF << 56 | 0x1234 << 40) - (1 << 64)])
def test_any_other_owner_is_a_session(session):
    assert node(owner=session).session == session
    assert node(owner=session).ttl_ms == 0


def test_clients_are_notified_of_creations_and_deletions_of_children():
    assert node(cversion=7, children=2).client_cversion == 12
