"""Segments of Pulsar 5's scalable topics, `segment://…`, are topics for every command."""

import itertools

from tests.support.cli import answer, mledger, ok

QUORUMS = ("--ensemble-size", 1, "--write-quorum", 1, "--ack-quorum", 1)
_numbers = itertools.count(1)


def segment() -> str:
    """A segment of a namespace of its own."""
    return f"segment://public/space-{next(_numbers)}/orders/0000-7fff-1"


def namespace_of(name: str) -> str:
    return "/".join(name.split("/")[2:4])


def test_a_segment_is_listed_described_and_read(url):
    name = segment()
    ok("topics", "create", name, *QUORUMS, url=url)
    ok("cursors", "create", name, "c", *QUORUMS, url=url)
    ok("topics", "produce", name, "--count", 5, *QUORUMS, url=url)
    (listed,) = answer("topics", "list", namespace_of(name), url=url)
    assert listed["topic"] == name
    assert listed["managed_ledger"] == f"{namespace_of(name)}/segment/orders/0000-7fff-1"
    assert answer("topics", "describe", name, url=url)["entries"] == 5
    assert [each["backlog"] for each in answer("cursors", "list", name, url=url)] == [5]
    assert len(ok("topics", "read", name, url=url).out.splitlines()) == 5
    node = answer("metadata", "get", f"/managed-ledgers/{listed['managed_ledger']}", url=url)
    assert node["kind"] == "managed ledger"


def test_a_segment_s_ledgers_are_no_orphans(url):
    name = segment()
    ok("topics", "create", name, *QUORUMS, url=url)
    ok("cursors", "create", name, "c", *QUORUMS, url=url)
    ok("topics", "produce", name, "--count", 5, *QUORUMS, url=url)
    checked = answer("ledgers", "check", "--all", "--min-age", 0, "--references-only", url=url)
    assert [each for each in checked["unnamed"] if "segment" in each["managed_ledger"]] == []
    planned = answer("topics", "repair", "--namespace", namespace_of(name), "--dry-run", url=url)
    assert (planned["topics"], planned["mends"]) == (1, [])


def test_a_lost_ledger_of_a_segment_dangles(url):
    name = segment()
    ok("topics", "create", name, *QUORUMS, url=url)
    ok("cursors", "create", name, "c", *QUORUMS, url=url)
    ledger = int(answer("topics", "produce", name, "--count", 5, *QUORUMS, url=url)["first"].split(":")[0])
    refused = mledger("ledgers", "delete", ledger, "--yes", url=url)
    assert refused.code == 4, "a segment names it"
    assert name.removeprefix("segment://").split("/")[1] in refused.err


def test_a_segment_is_changed_and_deleted_like_any_topic(url, tmp_path):
    name = segment()
    ok("topics", "create", name, *QUORUMS, url=url)
    ok("cursors", "create", name, "c", *QUORUMS, url=url)
    ok("topics", "produce", name, "--count", 5, *QUORUMS, url=url)
    ok("cursors", "clear", name, "c", "--yes", "--undo-file", tmp_path / "clear.json", *QUORUMS, url=url)
    assert [each["backlog"] for each in answer("cursors", "list", name, url=url)] == [0]
    ok("undo", tmp_path / "clear.json", "--yes", url=url)
    assert [each["backlog"] for each in answer("cursors", "list", name, url=url)] == [5]
    ok("topics", "delete", name, "--yes", "--undo-file", tmp_path / "delete.json", *QUORUMS, url=url)
    assert mledger("topics", "describe", name, url=url).code == 3


def test_a_scalable_topic_itself_is_refused_with_how_to_name_a_segment(url):
    refused = mledger("topics", "describe", "topic://public/default/orders", url=url)
    assert refused.code == 2
    assert "segment://public/default/orders" in refused.err


def test_a_snapshot_has_segments_as_topics_and_none_of_their_ledgers_as_orphans(url, tmp_path):
    name = segment()
    ok("topics", "create", name, *QUORUMS, url=url)
    ok("cursors", "create", name, "c", *QUORUMS, url=url)
    exported = answer("snapshot", "export", tmp_path / "snapshots", url=url)
    assert exported
    asked = answer("snapshot", "ask", tmp_path / "snapshots", "topics_without_subscriptions", url=url)
    assert name not in [each["topic"] for each in asked]
    orphans = answer("snapshot", "ask", tmp_path / "snapshots", "orphan_ledgers", url=url)
    assert [each for each in orphans if "segment" in (each["managed_ledger"] or "")] == []
