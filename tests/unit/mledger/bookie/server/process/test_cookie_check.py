"""To whom a directory belongs, by its format file and the cookies."""

import socket

import pytest

from mledger.bookie.errors import InvalidBookieDirectory
from mledger.bookie.server.process.cookie_check import Relocation, default_port, listen, own_id, plan_identity
from mledger.bookie.server.storage.directories.directory import (
    FORMAT_VERSION,
    DirectoryFormat,
)
from mledger.metastore.cluster.cookies import Cookie
from mledger.metastore.runtime.network.listening_port import PortUnavailable

FORMAT = DirectoryFormat(FORMAT_VERSION, "host:3181", "cluster", b"0123456789abcdef")


COOKIE = Cookie("host:3181", "/d/journal", ("/d",), "cluster")


def identity(
    found=FORMAT,
    begun=True,
    bookie_id="host:3181",
    instance="cluster",
    own=COOKIE,
    stored=COOKIE,
    relocation=Relocation.REFUSED,
):
    """The plan for a directory, with the expected values unless others are given."""
    return plan_identity("/d", found, begun, bookie_id, instance, own, stored, relocation)


def moved(**others):
    """The plan for a directory whose cookie names its former place."""
    cookie = {"bookie_id": "host:3181", "journal_dir": "/old/d/journal", "ledger_dirs": ("/old/d",)}
    return identity(stored=Cookie(**cookie | {"instance_id": "cluster"} | others), relocation=Relocation.ALLOWED)


def test_a_returning_bookie_writes_nothing():
    plan = identity()
    assert (plan.begin, plan.write_cookie) == (None, False)


def test_a_new_bookie_writes_format_and_cookie():
    plan = identity(found=None, begun=False, stored=None)
    assert plan.begin is not None
    assert (plan.begin.bookie_id, plan.begin.instance_id, plan.write_cookie) == ("host:3181", "cluster", True)


def test_a_bookie_killed_before_it_wrote_its_cookie_writes_it_now():
    plan = identity(begun=False, stored=None)
    assert (plan.begin, plan.write_cookie) == (None, True)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ({"found": None, "begun": False}, "is empty, but bookie host:3181 is registered"),
        ({"bookie_id": "other:1"}, "belongs to bookie host:3181"),
        ({"instance": "another"}, "belongs to the cluster cluster"),
        ({"stored": None}, "cookie write host:3181 --journal-dir /d/journal --ledger-dir /d`"),
        ({"stored": Cookie("host:3181", "/e/journal", ("/e",), "cluster")}, "names /e"),
    ],
)
def test_a_directory_of_another_bookie_is_refused(case, reason):
    with pytest.raises(InvalidBookieDirectory, match=reason):
        identity(**case)


@pytest.mark.parametrize(
    ("bookie_id", "port"), [("127.0.0.1:3181", 3181), ("other:3181", 0), ("a-name", 0), ("127.0.0.1:x", 0)]
)
def test_the_port_in_a_bookie_id_of_host_and_port_is_kept(bookie_id, port):
    assert default_port(DirectoryFormat(1, bookie_id, "c", b""), "127.0.0.1") == port
    assert default_port(None, "127.0.0.1") == 0


@pytest.mark.parametrize(
    ("known", "explicit", "advice"),
    [
        (None, True, "in use; name another"),
        ("same", True, "in use; the bookie's entries are known by this port: end the program that has it"),
        ("same", False, "in use; the bookie's entries are known by this port: end the program that has it"),
        ("1", True, "in use; the directory's bookie is known by port 1: name that one"),
    ],
)
def test_the_error_of_a_port_in_use_says_what_helps_this_directory(known, explicit, advice):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        bookie_id = f"127.0.0.1:{port if known == 'same' else known}"
        found = None if known is None else DirectoryFormat(FORMAT_VERSION, bookie_id, "cluster", b"")
        with pytest.raises(PortUnavailable, match=advice):
            listen(found, "127.0.0.1", "127.0.0.1", port if explicit else 0)


def test_a_directory_that_was_moved_gets_a_new_cookie_where_that_is_allowed():
    assert (moved().begin, moved().write_cookie) == (None, True)
    assert not identity(relocation=Relocation.ALLOWED).write_cookie


@pytest.mark.parametrize(
    "others",
    [
        {"instance_id": "another"},
        {"ledger_dirs": ("/old/e",), "journal_dir": "/old/e/journal"},
        {"journal_dir": "/disk/journal"},
    ],
)
def test_what_differs_by_more_than_the_place_is_not_moved(others):
    with pytest.raises(InvalidBookieDirectory, match="the cookie of"):
        moved(**others)


def test_the_option_for_moved_data_is_named_where_there_is_one():
    elsewhere = Cookie("host:3181", "/old/d/journal", ("/old/d",), "cluster")
    with pytest.raises(InvalidBookieDirectory, match="give --moved"):
        identity(stored=elsewhere, relocation=Relocation.ADVISED)


def test_a_moved_bookie_keeps_its_id_at_another_port_if_its_own_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        found = DirectoryFormat(FORMAT_VERSION, f"127.0.0.1:{port}", "cluster", b"")
        with pytest.raises(PortUnavailable, match="give --moved"):
            listen(found, "127.0.0.1", "127.0.0.1", 0, Relocation.ADVISED)
        with listen(found, "127.0.0.1", "127.0.0.1", 0, Relocation.ALLOWED) as listener:
            own = listener.getsockname()[1]
    assert own != port
    assert own_id(found, "127.0.0.1", own, Relocation.ALLOWED) == f"127.0.0.1:{port}"
    assert own_id(found, "127.0.0.1", own, Relocation.ADVISED) == ""
