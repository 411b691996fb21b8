"""Commands that only read work under an access control list that allows only reading (M9); others are refused."""

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from tests.support.aio import HANG_S
from tests.support.cli import answer, mledger, ok

TOPIC = "persistent://public/default/read-only"


@pytest.fixture(scope="module")
def read_only(url):
    """A cluster with a topic, a cursor and ten entries, whose metadata nobody may change; the topic's ledger."""
    ok("topics", "create", TOPIC, url=url)
    ok("cursors", "create", TOPIC, "one", url=url)
    ledger = answer("topics", "produce", TOPIC, "--count", 10, url=url)["first"].split(":")[0]
    client = KazooClient(url.removeprefix("zk://"))
    client.start(timeout=HANG_S)
    changed: list[str] = []
    allow(client, "/", make_acl("world", "anyone", read=True, admin=True), changed)
    yield ledger
    for path in changed:  # so that the bookies can stop in order
        client.set_acls(path, [make_acl("world", "anyone", all=True)])
    client.stop()
    client.close()


def allow(client, path, acl, changed) -> None:
    """Give `path` and everything below it one access control list."""
    for name in client.get_children(path):
        if path != "/" or name != "zookeeper":
            allow(client, f"{path.rstrip('/')}/{name}", acl, changed)
    client.set_acls(path, [acl])
    changed.append(path)


def test_inspection_needs_no_more_than_reading(url, read_only) -> None:
    for arguments in (
        ("topics", "list"),
        ("topics", "describe", TOPIC),
        ("topics", "info-internal", TOPIC),
        ("topics", "stats-internal", TOPIC, "-m"),
        ("topics", "read", TOPIC),
        ("cursors", "list", TOPIC),
        ("cursors", "describe", TOPIC, "one"),
        ("cursors", "recover", TOPIC),
        ("ledgers", "list"),
        ("ledgers", "describe", read_only),
        ("ledgers", "read", read_only),
        ("ledgers", "check", "--all", "--min-age", 0),
        ("topics", "repair", TOPIC, "--min-age", 0, "--dry-run"),
        ("bookies", "list"),
        ("bookies", "cluster"),
        ("bookies", "underreplicated", "--output", "json"),
        ("metadata", "tree", "/"),
        ("metadata", "get", "/managed-ledgers"),
    ):
        done = mledger(*arguments, url=url)
        assert done.code == 0, (arguments, done.err)
        assert done.out != ""


def test_a_backup_needs_no_more_than_reading(url, read_only, tmp_path) -> None:
    assert answer("metadata", "backup", tmp_path / "backup", url=url)["nodes"] > 10


def test_writing_is_refused_in_one_line(url, read_only) -> None:
    for arguments in (("topics", "create", f"{TOPIC}-2"), ("topics", "produce", TOPIC, "--count", 1)):
        done = mledger(*arguments, url=url)
        assert done.code == 1, (arguments, done.err)
        assert len(done.err.splitlines()) == 1
