"""The exporter's process: it serves documented metrics, changes nothing, and outlives its metadata store."""

import os

import mledger
from mledger.exporter.main import NICE
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.exporter.exporter_process import ExporterRun
from tests.support.http import get, undocumented
from tests.support.metadata.tree import tree
from tests.support.topics import KEEP, everything, fill, write_topic

TOPIC = "persistent://exporter/process/t"
OFTEN = ("--interval", "0.1")
ALL = ("--worst", "100000")  # the topics of other tests are in the same cluster
QUICK = (*OFTEN, "--timeout", "1", "--session-timeout", "4")


async def make_cluster(url):
    async with await open_store(url, create_chroot=True) as store:
        await initialize(store)


def test_it_serves_documented_metrics_and_changes_nothing(topic_url, tmp_path):
    run(write_topic(topic_url, TOPIC))
    before = tree(topic_url)
    with ExporterRun(topic_url, tmp_path / "log", (*OFTEN, *ALL)) as exporter:
        answer = run(exporter.read_rounds())
        health = run(get(exporter.port, "/health"))
        assert exporter.stop() == 0
    found = answer.samples
    assert undocumented(answer) == []
    worst = {name: count for name, count in found.items() if name.startswith("mledger_cluster_worst_backlog_entries{")}
    assert [count for name, count in worst.items() if f'topic="{TOPIC}"' in name] == [20]
    assert found['mledger_cluster_entries{namespace="exporter/process"}'] == 20
    assert found['mledger_cluster_bookies{state="writable"}'] == 4
    assert found["mledger_exporter_connected"] == 1
    assert (health.status, health.json["status"], health.json["error"]) == (200, "ok", "")
    assert tree(topic_url) == before


def test_it_stands_back_behind_other_processes_of_its_machine(topic_url, tmp_path):
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    with ExporterRun(topic_url, tmp_path / "log", OFTEN) as exporter:
        assert os.getpriority(os.PRIO_PROCESS, exporter.process.pid) == min(ours + NICE, 19)


def test_an_owner_is_not_fenced(topic_url, tmp_path):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            topic = await cluster.create_topic("persistent://exporter/fences/t")
            await fill(topic, 5)
            with ExporterRun(topic_url, tmp_path / "log", OFTEN) as exporter:
                await exporter.read_rounds(2)
            await fill(topic, 5, 5)
            assert len(await everything(topic)) == 10

    run(main())


def test_it_outlives_a_killed_zookeeper_and_says_how_old_the_reading_is(zookeeper_server, tmp_path):
    run(make_cluster(zookeeper_server.url))
    with ExporterRun(zookeeper_server.url, tmp_path / "log", QUICK) as exporter:
        run(exporter.read_rounds())
        zookeeper_server.kill()
        away = run(exporter.metrics_when(lambda found: failed_rounds(found) > 0)).samples
        later = run(exporter.metrics_when(lambda found: failed_rounds(found) > failed_rounds(away))).samples
        health = run(get(exporter.port, "/health"))
        zookeeper_server.restart()
        run(exporter.read_rounds())
        assert run(get(exporter.port, "/health")).status == 200
    age = "mledger_exporter_reading_age_seconds"
    assert later[age] > away[age] > 0
    assert later["mledger_exporter_rounds_total"] == away["mledger_exporter_rounds_total"]
    assert later['mledger_cluster_bookies{state="writable"}'] == 0
    assert (health.status, health.json["status"]) == (503, "the last round failed")


def failed_rounds(found):
    return sum(value for name, value in found.items() if name.startswith("mledger_exporter_failed_rounds_total"))


def test_it_starts_while_the_store_is_away(zookeeper_server, tmp_path):
    run(make_cluster(zookeeper_server.url))
    zookeeper_server.kill()
    with ExporterRun(zookeeper_server.url, tmp_path / "log", QUICK) as exporter:
        assert run(get(exporter.port, "/health")).json["status"] in ("no reading yet", "the last round failed")
        assert run(get(exporter.port, "/health")).status == 503
        zookeeper_server.restart()
        run(exporter.read_rounds())
