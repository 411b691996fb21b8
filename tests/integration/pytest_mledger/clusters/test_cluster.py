"""The cluster of the plugin's fixtures, used without pytest's."""

import asyncio
import os
import sys

import psutil
import pytest

import mledger
from mledger.metastore.cluster.bookies import list_bookies
from mledger.metastore.url import open_store
from pytest_mledger.clusters.cluster import BOOKIE_MODULE, RunningCluster
from pytest_mledger.servers.processes import ClusterFailed, Servers
from tests.support.aio import run


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with RunningCluster.start(tmp_path_factory.mktemp("cluster"), 2) as cluster:
        yield cluster


@pytest.fixture
def topic_name(request):
    return f"persistent://test/ns/{request.node.name}"


@pytest.fixture
def servers(tmp_path):
    servers = Servers(tmp_path)
    yield servers
    servers.close()


def test_a_restarted_owner_finds_what_was_acknowledged_to_it(cluster, topic_name):
    async def main():
        async with cluster.owner() as owner:
            topic = await owner.open_topic(topic_name)
            cursor = await topic.open_cursor("sub")
            await topic.append([b"%d" % number for number in range(10)])
            entries = await cursor.read(10)
            await cursor.acknowledge([entry.position for entry in entries[3:6]])
            await owner.restart()
            with pytest.raises(mledger.MledgerError):
                await topic.append([b"late"])
            topic = await owner.open_topic(topic_name)
            cursor = await topic.open_cursor("sub")
            left = await cursor.read(10)
            return [entry.payload for entry in left]

    assert run(main()) == [b"0", b"1", b"2", b"6", b"7", b"8", b"9"]


def test_a_restarted_owner_had_closed_nothing(cluster, topic_name):
    async def main():
        async with cluster.owner() as owner:
            await (await owner.open_topic(topic_name)).append([b"one"])
            await owner.restart()
            seen = await owner.cluster.inspector.topic(topic_name)
            return [ledger.closed for ledger in seen.ledgers]

    assert run(main()) == [False]


def test_entries_survive_the_kill_of_every_bookie(cluster, topic_name):
    async def main():
        async with cluster.owner() as owner:
            topic = await owner.open_topic(topic_name)
            position = await topic.add(b"kept")
            for bookie in cluster.bookies:
                bookie.restart()
            await owner.restart()
            topic = await owner.open_topic(topic_name)
            kept = await topic.read_entry(position)
            return kept.payload

    assert run(main()) == b"kept"


def test_a_program_gets_the_cluster_and_ends_with_its_context(cluster):
    code = "import os, signal; print(os.getcwd(), os.environ['MLEDGER_METADATA'], flush=True); signal.pause()"
    with cluster.program(sys.executable, "-c", code) as program:
        program.wait_for(f"{os.getcwd()} {cluster.url}")
        process = psutil.Process(program.pid)
        assert program.running
    assert not process.is_running()
    assert not program.running


def test_the_output_of_a_killed_program_is_not_taken_for_its_successors(cluster, tmp_path):
    code = f"import pathlib; p = pathlib.Path({str(tmp_path / 'been')!r})\nprint(p.exists(), flush=True); p.touch()"
    with cluster.program(sys.executable, "-c", code) as program:
        program.wait_for("False")
        assert program.wait() == 0
        program.restart()
        program.wait_for("True")
        assert program.output == "True\n"


def test_a_program_that_ends_too_early_is_an_error_with_its_output(cluster):
    with cluster.program(sys.executable, "-c", "raise SystemExit('no orders')") as program:
        with pytest.raises(ClusterFailed, match=r"ended with 1 and did not print 'ready'"):
            program.wait_for("ready")
        assert program.log.read_text() == "no orders\n"


def test_a_missing_command_is_an_error_that_names_it(cluster):
    with (
        cluster.program("no-such-command") as program,
        pytest.raises(ClusterFailed, match=r"No such file or directory"),
    ):
        program.wait_for("ready")


def test_a_bookie_is_found_by_its_name_in_the_metadata(cluster):
    for bookie in cluster.bookies:
        assert cluster.bookie(bookie.bookie_id) is bookie
    with pytest.raises(KeyError, match=r"127\.0\.0\.1:1"):
        cluster.bookie("127.0.0.1:1")


def test_a_server_that_does_not_start_is_an_error_with_its_log(servers, tmp_path):
    bookie = servers.start("bookie", BOOKIE_MODULE, "--metadata", "etcd:x", "--dir", str(tmp_path / "bookie"))
    with pytest.raises(ClusterFailed, match="bookie ended with 1 instead of serving"):
        servers.wait_serving(bookie)
    with pytest.raises(ClusterFailed, match="metadata in etcd is not supported"):
        servers.wait_serving(bookie)


def test_a_module_that_cannot_be_imported_is_an_error_with_the_log(servers):
    server = servers.start("server", "mledger.no_such_module")
    with pytest.raises(ClusterFailed, match=r"No module named 'mledger\.no_such_module'"):
        servers.wait_serving(server)


def test_bookies_and_clients_begin_new_sessions_after_theirs_have_expired(cluster, topic_name):
    async def main():
        async with cluster.owner() as owner:
            topic = await owner.open_topic(topic_name)
            await topic.open_cursor("keeps", initial="earliest")
            await topic.append([b"one"])
            await asyncio.to_thread(cluster.expire_sessions)
            await owner.restart()
            topic = await owner.open_topic(topic_name)
            await topic.append([b"two"])  # a new ledger, on bookies that are registered again
            return [entry.payload for entry in await topic.read(mledger.Position(topic.ledgers[0].ledger_id, 0), 10)]

    assert run(main()) == [b"one", b"two"]
    for bookie in cluster.bookies:
        assert bookie.running


def registered(cluster):
    """The ids of the bookies that are registered."""

    async def main():
        async with await open_store(cluster.url) as store:
            return {bookie.bookie_id for bookie in await list_bookies(store)}

    return run(main())


def test_bookies_are_registered_again_when_the_sessions_have_expired(cluster):
    for _ in range(3):
        cluster.expire_sessions()
        assert registered(cluster) == {bookie.bookie_id for bookie in cluster.bookies}


def test_a_bookie_that_is_dead_or_frozen_is_not_waited_for_when_sessions_expire(cluster):
    killed, frozen = cluster.bookies
    killed.kill()
    cluster.expire_sessions()
    assert registered(cluster) == {frozen.bookie_id}
    frozen.freeze()
    cluster.expire_sessions()
    assert registered(cluster) == set()
    cluster.mend()
