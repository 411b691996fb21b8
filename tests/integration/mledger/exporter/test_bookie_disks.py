"""The exporter asks bookies for their disks only if it is told to; those that do not answer are left out."""

import logging

from mledger.bookie.client.connections.connector import BookieConnector
from mledger.config import ManagedLedgerConfig
from mledger.exporter import bookie_disks
from mledger.exporter.bookie_disks import ask_disks
from mledger.exporter.cluster_reader import ClusterReader
from mledger.metastore.cluster.bookies import register
from mledger.metastore.url import open_reader, open_store
from mledger.metastore.zookeeper.launcher import free_port
from tests.support.aio import run
from tests.support.exporter.exporter_process import ExporterRun
from tests.support.http import undocumented


async def disks_of(url, timeout_s=60.0, all_timeout_s=60.0):
    async with await open_reader(url) as reader:
        return await ask_disks(reader, BookieConnector(), timeout_s, all_timeout_s)


def test_bookies_that_answer_tell_their_disks_and_others_are_left_out(bookies):
    (bookie,) = bookies.start(1)

    async def main():
        async with await open_store(bookies.metadata_url) as store:
            await register(store, "gone:1", "127.0.0.1", free_port())
            return await disks_of(bookies.metadata_url)

    found = run(main())
    assert found.keys() == {bookie.bookie_id}
    assert 0 < found[bookie.bookie_id].free_bytes <= found[bookie.bookie_id].total_bytes


def test_a_frozen_bookie_holds_up_no_round(bookies):
    bookies.start(1)
    bookies.freeze(0)
    assert run(disks_of(bookies.metadata_url, 0.1)) == {}


def test_bookies_that_are_silent_together_hold_up_no_round(bookies):
    bookies.start(1)
    bookies.freeze(0)
    assert run(disks_of(bookies.metadata_url, 1e6, 0.1)) == {}


def test_a_bookie_that_refuses_the_request_is_left_out_and_logged(bookies, monkeypatch, caplog):
    async def refused(*_):
        return None

    (bookie,) = bookies.start(1)
    monkeypatch.setattr(bookie_disks, "ask_info", refused)
    with caplog.at_level(logging.INFO, logger=bookie_disks.__name__):
        assert run(disks_of(bookies.metadata_url)) == {}
    assert f"bookie_refused_disks bookie={bookie.bookie_id}" in caplog.text


def test_a_cluster_that_never_had_a_bookie_has_no_disks(metadata_url):
    assert run(disks_of(metadata_url)) == {}


def test_no_bookie_is_asked_by_default(bookies):
    bookies.start(1)

    async def main():
        async with await open_reader(bookies.metadata_url) as reader:
            return await ClusterReader(ManagedLedgerConfig(), worst=1).read(reader)

    assert run(main()).disks == {}


def test_the_free_space_is_a_metric_of_each_bookie(bookies, tmp_path):
    (bookie,) = bookies.start(1)
    with ExporterRun(bookies.metadata_url, tmp_path / "log", ("--ask-bookies",)) as exporter:
        answer = run(exporter.metrics_when(lambda found: found["mledger_exporter_rounds_total"] > 0))
    label = f'{{bookie="{bookie.bookie_id}"}}'
    size, free = (answer.samples[f"mledger_cluster_bookie_{what}_bytes{label}"] for what in ("disk", "free"))
    assert 0 < free <= size
    assert undocumented(answer) == []
