"""Restores records that name ledgers, without the ledgers, into another tree."""

import pytest

from mledger.ledgers.orphans.references import SCHEMAS
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.records.ledger_codec import encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment
from mledger.metastore.records.paths import deletion_path, kept_path, ledger_path, pending_path
from mledger.metastore.records.pb.SchemaStorage_pb2 import SchemaLocator
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.metadata.tree import tree

NAMED = 700
GONE = b"public/default/persistent/gone"
LIVE = "public/default/persistent/live"


def locator() -> bytes:
    """A schema whose only version is in the ledger."""
    made = SchemaLocator()
    for each in (made.info, made.index.add()):
        each.version = 0
        each.hash = b"h"
        each.position.ledgerId, each.position.entryId = NAMED, 0
    return made.SerializeToString()


RECORDS = {
    "schema": (f"{SCHEMAS}/public/default/gone", locator()),
    "pending": (pending_path(NAMED), GONE),
    "deletion": (deletion_path(NAMED), GONE),
    "kept": (kept_path(NAMED), GONE),
}


@pytest.fixture(params=RECORDS)
def backup(request, metadata_url, tmp_path):
    """A backup of a tree in which only such a record names the ledger, and the record's path."""
    path, data = RECORDS[request.param]
    ok("metadata", "init", url=metadata_url)

    async def main():
        async with await open_store(metadata_url) as store:
            await store.create(path, data, parents=True)

    run(main())
    ok("metadata", "backup", tmp_path / "backup", url=metadata_url)
    return tmp_path / "backup", path


@pytest.fixture
def other(metadata_url):
    """A tree that was set up anew."""
    url = f"{metadata_url}/other"
    ok("metadata", "init", url=url)
    return url


def test_no_topic_gets_the_ledger_of_a_restored_record(backup, other, tmp_path):
    file, path = backup
    answer("metadata", "restore", file, "--path", path, "--yes", "--undo-file", tmp_path / "undo", url=other)

    async def main():
        async with await open_store(other) as store:
            return await LedgerStore(store).next_id()

    assert run(main()) > NAMED


def test_a_record_is_not_restored_where_its_ledger_is_a_topics(backup, other, tmp_path):
    file, path = backup
    custom = (("component", b"managed-ledger"), ("pulsar/managed-ledger", LIVE.encode()))
    metadata = LedgerMetadata(1, 1, 1, (Segment(0, ("a:3181",)),), custom_metadata=custom)

    async def main():
        async with await open_store(other) as store:
            await store.create(ledger_path(NAMED), encode_ledger_metadata(metadata), parents=True)

    run(main())
    refused = mledger("metadata", "restore", file, "--path", path, "--yes", "--undo-file", tmp_path / "undo", url=other)
    assert refused.code == 4
    assert f"ledger {NAMED}, which {path} names, is of {LIVE} here" in refused.err


def test_ledgers_of_another_cluster_are_not_restored_in_part_and_remove_none(metadata_url, other, tmp_path):
    metadata = LedgerMetadata(1, 1, 1, (Segment(0, ("a:3181",)),))

    async def create(url, ledger):
        async with await open_store(url) as store:
            await store.create(ledger_path(ledger), encode_ledger_metadata(metadata), parents=True)

    ok("metadata", "init", url=metadata_url)
    run(create(metadata_url, 3))
    run(create(other, 4))
    ok("metadata", "backup", tmp_path / "whole", url=metadata_url)
    restore = ("metadata", "restore", tmp_path / "whole", "--path", "/ledgers/00")
    for more in ((), ("--remove",)):
        before = tree(other)
        planned = answer(*restore, *more, "--dry-run", url=other)
        refused = mledger(*restore, *more, "--yes", "--undo-file", tmp_path / "undo", url=other)
        assert (refused.code, tree(other)) == (4, before)
        (line,) = planned["foreign_ledgers"]
        assert line.startswith("the ledgers are of the cluster ")
        assert line in refused.err
