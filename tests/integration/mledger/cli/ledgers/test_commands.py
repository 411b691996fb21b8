"""`mledger ledgers list|describe` on a real cluster."""

import pytest
from msgspec.structs import replace

from mledger.metastore.records.ledger_codec import decode_ledger_metadata, encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import NOT_KEPT
from mledger.metastore.records.paths import ledger_path
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer, ok


@pytest.fixture
def ledger(url, topic):
    """A closed ledger of a topic, with ten entries."""
    ok("topics", "create", topic, url=url)
    return int(answer("topics", "produce", topic, "--count", 10, url=url)["first"].split(":")[0])


def test_ledgers_are_listed_by_rising_id_with_their_topic(url, topic, ledger) -> None:
    listed = answer("ledgers", "list", url=url)
    ids = [each["ledger_id"] for each in listed]
    assert ids == sorted(ids)
    found = next(each for each in listed if each["ledger_id"] == ledger)
    assert (found["state"], found["entries"]) == ("CLOSED", 10)
    assert found["of"] == topic.replace("persistent://public/default/", "public/default/persistent/")


def test_a_ledger_is_described_with_its_end(url, ledger) -> None:
    described = answer("ledgers", "describe", ledger, url=url)
    assert (described["last_entry"], described["unconfirmed"]) == (9, False)
    assert len(described["ensembles"][0]["bookies"]) == described["ensemble_size"]


async def put_creation(url: str, ledger: int, ctime: int) -> None:
    """Make the ledger's metadata have this creation time, in ms since 1970."""
    async with await open_store(url) as store:
        node = await store.get(ledger_path(ledger))
        metadata = replace(decode_ledger_metadata(node.data, ""), ctime=ctime)
        await store.put(ledger_path(ledger), encode_ledger_metadata(metadata), node.version)


def test_a_ledger_whose_creation_is_not_kept_has_no_time_of_it(url, ledger) -> None:
    for ctime in (NOT_KEPT, 0):
        run(put_creation(url, ledger, ctime))
        assert answer("ledgers", "describe", ledger, url=url)["created_ms"] is None
