"""`mledger status` of a cluster that `mledger up` did not start."""

import pytest

from tests.support.cli import answer, mledger


@pytest.fixture
def elsewhere(tmp_path, monkeypatch) -> None:
    """A directory without a cluster of `mledger up`."""
    monkeypatch.chdir(tmp_path)


def test_the_cluster_of_the_environment_is_shown_with_its_bookies(elsewhere, bookies) -> None:
    bookies.start(1)
    bookies.start(1, "--read-only")
    shown = answer("status", url=bookies.metadata_url)
    assert shown == {
        "metadata": bookies.metadata_url,
        "said_by": "MLEDGER_METADATA",
        "writable_bookies": 1,
        "read_only_bookies": 1,
        "brokers": [],
    }


def test_a_cluster_without_a_writable_bookie_does_not_serve(elsewhere, bookies) -> None:
    bookies.start(1, "--read-only")
    done = mledger("status", url=bookies.metadata_url)
    assert done.code == 5
    assert "writable bookies" in done.out


def test_a_store_that_does_not_answer_is_unavailable_when_the_time_is_up(elsewhere) -> None:
    done = mledger("status", "--metadata", "zk://127.0.0.1:1", "--timeout", "0.5")
    assert done.code == 5
    assert done.err == "mledger: not done within --timeout, 0.5 s\n"
