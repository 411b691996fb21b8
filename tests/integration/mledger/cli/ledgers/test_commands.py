"""`mledger ledgers list|describe` on a real cluster."""

import pytest

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
