"""A bookie as its operator runs it: settings, logs, metrics and health, limits, a directory of an older version."""

import asyncio
import contextlib
import json
import sys

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.errors import Code
from mledger.bookie.server.storage.rows.index_damage import NAME, note_damage
from mledger.metastore.cluster.bookies import list_bookies
from mledger.metastore.cluster.cookies import read_cookie
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.broken_bookie import HOLD_VARIABLE
from tests.support.bookies.processes import BookieFailed, initialize_cluster
from tests.support.bookies.raw_bookie import RawBookieClient, entry
from tests.support.http import get, undocumented
from tests.support.zookeeper.server import SHORT_SESSION_S

KEY = master_key(b"")
METRICS = ("--metrics-port", "0")
RETRANSMIT, KEEPALIVE = "01", "02"  # timers in /proc/net/tcp
EVERY_TENTH = ("--set", "diskCheckInterval=100")


async def add(bookie, *numbers, ledger=1, size=1):
    """Add entries over one connection, one request each, and return the error codes."""
    async with RawBookieClient(bookie) as client:
        client.send(b"".join(wire.encode_add(KEY, entry(ledger, number, bytes(size))) for number in numbers))
        return [(await client.response()).error for _ in numbers]


async def read(bookie, number, ledger=1):
    """The error code of a read."""
    async with RawBookieClient(bookie) as client:
        return (await client.ask(wire.encode_read(ledger, number))).error


def test_metrics_have_bookkeeper_s_names_and_count_operations(bookies):
    (bookie,) = bookies.start(1, *METRICS)

    async def main():
        before = (await get(bookie.metrics_port, "/metrics")).samples
        assert before['bookkeeper_server_ADD_ENTRY_count{success="true"}'] == 0
        assert await add(bookie, *range(10)) == [0] * 10
        assert [await read(bookie, number) for number in (0, 77)] == [Code.OK, Code.NO_ENTRY]
        return (await get(bookie.metrics_port, "/metrics")).samples

    found = run(main())
    assert found["bookie_SERVER_STATUS"] == 1
    assert found['bookkeeper_server_ADD_ENTRY_count{success="true"}'] == 10
    assert found['bookkeeper_server_READ_ENTRY_count{success="true"}'] == 1
    assert found['bookkeeper_server_READ_ENTRY_count{success="false"}'] == 1
    assert found["bookie_WRITE_BYTES"] == sum(len(wire.encode_add(KEY, entry(1, n, b"x"))) for n in range(10))
    assert found['bookie_journal_JOURNAL_SYNC_count{journalIndex="0",success="true"}'] >= 1
    assert found['bookie_journal_JOURNAL_SYNC_sum{journalIndex="0",success="true"}'] > 0
    assert found['mledger_bookie_sync_seconds_bucket{le="+Inf"}'] == found["mledger_bookie_sync_seconds_count"]
    assert found['bookie_journal_JOURNAL_MEMORY_USED{journalIndex="0"}'] == 0
    assert found["process_resident_memory_bytes"] > 0


def test_metrics_are_in_openmetrics_form_on_request(bookies):
    (bookie,) = bookies.start(1, *METRICS)
    answer = run(get(bookie.metrics_port, "/metrics", Accept="application/openmetrics-text; version=1.0.0"))
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.body.endswith("# EOF\n")


def test_health_reports_whether_clients_find_the_bookie(bookies):
    (bookie,) = bookies.start(1, *METRICS, "--read-only")

    async def main():
        return [await get(bookie.metrics_port, path) for path in ("/health", "/heartbeat", "/api/v1/bookie/state")]

    health, heartbeat, state = run(main())
    assert (health.status, health.json["read_only"], health.json["registered"]) == (200, True, True)
    assert (heartbeat.status, heartbeat.body) == (200, "OK\n")
    assert state.json["readOnly"] is True


def test_a_bookie_without_a_session_is_not_healthy(bookies, zookeeper_server):
    initialize_cluster(zookeeper_server.url)
    bookies.metadata_url = zookeeper_server.url
    (bookie,) = bookies.start(1, *METRICS, "--session-timeout", str(SHORT_SESSION_S))

    async def main():
        while (await get(bookie.metrics_port, "/health")).status != 200:
            await asyncio.sleep(0.05)
        zookeeper_server.freeze()
        while (answer := await get(bookie.metrics_port, "/health")).status == 200:
            await asyncio.sleep(0.05)
        zookeeper_server.thaw()
        assert (answer.status, answer.json["registered"]) == (503, False)
        while (await get(bookie.metrics_port, "/health")).status != 200:
            await asyncio.sleep(0.05)

    run(main())


def test_a_settings_file_is_applied_and_its_unknown_keys_are_reported_in_one_line(bookies, tmp_path, cluster_url):
    path = tmp_path / "bookkeeper.conf"
    path.write_text("bookieId=named\nnettyMaxFrameSizeBytes=2000\nnoSuchKey=1\nneitherThis: 2\npageLimit=0\n")
    (bookie,) = bookies.start(1, "--config", str(path), "--log-level", "debug")
    assert bookie.bookie_id == "named"

    async def main():
        async with RawBookieClient(bookie) as client:
            client.send(wire.encode_add(KEY, entry(1, 0, bytes(3000))))
            return await client.closed()

    assert run(main()) == b""
    lines = [line for line in bookie.log().splitlines() if "settings" in line]
    assert any("level=warning" in line and line.endswith("keys=neitherThis,noSuchKey") for line in lines)
    assert any("level=debug" in line and line.endswith("keys=pageLimit") for line in lines)


def test_json_logs_are_one_object_per_line(bookies):
    (bookie,) = bookies.start(1, "--log-format", "json")
    bookie.stop()
    lines = [json.loads(line) for line in bookie.log().splitlines()]
    registered = next(line for line in lines if line.get("event") == "registered")
    assert (registered["bookie"], registered["read_only"], registered["level"]) == (bookie.bookie_id, False, "info")
    assert lines[-1]["event"] == "stopped"


def test_connections_over_the_limit_are_closed_and_counted_until_one_ends(bookies):
    (bookie,) = bookies.start(1, *METRICS, "--max-connections", "2")

    async def main():
        first = await RawBookieClient(bookie).__aenter__()
        second = await RawBookieClient(bookie).__aenter__()
        assert (await first.ask(wire.encode_add(KEY, entry(1, 0, b"x")))).error == 0
        assert (await second.ask(wire.encode_read(1, 0))).error == 0
        third = await RawBookieClient(bookie).__aenter__()
        assert await third.closed() == b""
        found = (await get(bookie.metrics_port, "/metrics")).samples
        assert (found["mledger_bookie_connections"], found["mledger_bookie_connections_refused_total"]) == (2, 1)
        first.writer.close()
        await first.writer.wait_closed()
        while (await get(bookie.metrics_port, "/metrics")).samples["mledger_bookie_connections"] > 1:
            await asyncio.sleep(0.01)
        assert await add(bookie, 1) == [0]
        second.writer.close()

    run(main())
    assert "event=connection_refused" in bookie.log()


def test_with_a_stalled_disk_a_bookie_stops_reading_and_stays_within_its_memory_limit(bookies, tmp_path):
    held = tmp_path / "held"
    bookie = bookies.add(
        *(*METRICS, "--set", "journalMaxMemorySizeMb=1", "--journal-mb", "64"),
        command=(sys.executable, "-m", "tests.support.bookies.broken_bookie", "held-sync"),
        environment={HOLD_VARIABLE: str(held)},
    ).start()
    clients, count, size = 4, 160, 64 << 10

    async def write(ledger):
        codes = await add(bookie, *range(count), ledger=ledger, size=size)
        assert codes == [0] * count

    async def main():
        most, waiting = 0.0, 0.0
        held.touch()
        writing = asyncio.gather(*(write(ledger) for ledger in range(1, clients + 1)))
        while not writing.done():
            found = (await get(bookie.metrics_port, "/metrics")).samples
            most = max(most, found['bookie_journal_JOURNAL_MEMORY_USED{journalIndex="0"}'])
            waiting = max(waiting, found["mledger_bookie_connections_waiting"])
            if waiting == clients:
                held.unlink(missing_ok=True)
        await writing
        return most

    assert 0 < run(main()) < (1 << 20) + (1 << 20) + size  # the limit, and the content of one receive buffer


def test_a_journal_may_have_a_directory_of_its_own_and_keeps_it(bookies, tmp_path, cluster_url):
    bookie = bookies.add("--journal-dir", str(tmp_path / "journal")).start()
    assert run(add(bookie, 0)) == [0]
    bookie.kill()
    assert list((tmp_path / "journal").glob("*.journal"))
    assert not (bookie.directory / "journal").exists()

    async def cookie():
        async with await open_store(cluster_url) as store:
            return (await read_cookie(store, bookie.bookie_id))[0]

    assert run(cookie()).journal_dir == str(tmp_path / "journal")
    bookie.arguments = tuple(each for each in bookie.arguments if "journal" not in each or each == "--journal-mb")
    bookie.start()
    assert run(read(bookie, 0)) == Code.OK
    bookie.stop()
    bookie.arguments = (*bookie.arguments, "--journal-dir", str(tmp_path / "other"))
    with pytest.raises(BookieFailed, match="its journal is in"):
        bookie.start()


def test_a_new_bookie_does_not_take_another_s_journal(bookies, tmp_path):
    bookies.add("--journal-dir", str(tmp_path / "journal")).start()
    other = bookies.add("--journal-dir", str(tmp_path / "journal"))
    with pytest.raises(BookieFailed, match=r"is not empty, and this bookie is new|another bookie process"):
        other.start()


def test_a_directory_of_version_1_is_upgraded_with_its_entries(bookies):
    (bookie,) = bookies.start(1)
    assert run(add(bookie, *range(5))) == [0] * 5
    bookie.stop()
    path = bookie.directory / "FORMAT"
    lines = path.read_text().splitlines(keepends=True)
    kept = "".join(line for line in lines if not line.startswith(("journal", "complete")))
    path.write_text(kept.replace("version 3", "version 1"))
    for part in ("journal", "store"):
        (bookie.directory / part / "BOOKIE").unlink()
    bookie.start()
    assert [run(read(bookie, number)) for number in range(5)] == [Code.OK] * 5
    assert path.read_text() == "".join(lines)
    assert all((bookie.directory / part / "BOOKIE").exists() for part in ("journal", "store"))
    assert "event=directory_upgraded" in bookie.log()


def test_a_bookie_on_a_disk_used_beyond_its_share_is_read_only(bookies, cluster_url):
    bookies.start(1, "--set", "diskUsageThreshold=0.0001", "--set", "diskCheckInterval=100")

    async def main():
        async with await open_store(cluster_url) as store:
            while not (found := await list_bookies(store)) or not found[0].read_only or len(found) > 1:
                await asyncio.sleep(0.02)

    run(main())


def test_a_bookie_with_a_damaged_index_is_read_only(bookies, cluster_url):
    (bookie,) = bookies.start(1, *METRICS)
    assert run(add(bookie, 0)) == [0]
    bookie.stop()
    store = bookie.directory / "store"
    note_damage(str(store), Exception("Corruption: block checksum mismatch"))
    bookie.start()
    of_recovery = wire.Flag.RECOVERY_ADD | wire.Flag.HIGH_PRIORITY

    async def main():
        async with await open_store(cluster_url) as metadata, RawBookieClient(bookie) as client:
            asked = (
                wire.encode_add(KEY, entry(2, 0, b"new")),
                wire.encode_read(1, 0),
                wire.encode_read(1, wire.LAST_ENTRY, wire.Flag.FENCE, KEY),
                wire.encode_add(KEY, entry(1, 1, b"of a recovery"), of_recovery),
                wire.encode_read(1, 1),
            )
            codes = [(await client.ask(request)).error for request in asked]
            return codes, [each.read_only for each in await list_bookies(metadata)], await gauge()

    async def gauge():
        return (await get(bookie.metrics_port, "/metrics")).samples["mledger_bookie_index_damaged"]

    assert run(main()) == ([Code.READ_ONLY, *[Code.OK] * 4], [True], 1)
    assert "the index is damaged, re-replicate the bookie's ledgers" in bookie.log()
    bookie.stop()
    (store / NAME).unlink()
    bookie.start()
    assert (run(add(bookie, 0, ledger=2)), run(gauge())) == ([Code.OK], 0)


def test_a_bookie_that_may_not_be_read_only_ends_when_its_disk_is_full(bookies):
    bookie = bookies.add("--set", "diskUsageThreshold=0.0001", "--set", "readOnlyModeEnabled=false")
    bookie.launch()
    assert bookie.wait() == 1
    assert "readOnlyModeEnabled is false: make room" in bookie.log()


def timer_of(server, client):
    """The timer that the system has for a connection between two ports, in the system's form, on the server's side."""
    with open("/proc/net/tcp") as connections:
        fields = [line.split() for line in connections][1:]
    ports = [[int(end.rpartition(":")[2], 16) for end in each[1:3]] for each in fields]
    return next(
        each[5].partition(":")[0] for each, found in zip(fields, ports, strict=True) if found == [server, client]
    )


def test_the_system_probes_a_silent_client(bookies):
    (bookie,) = bookies.start(1)

    async def main():
        reader, writer = await asyncio.open_connection(*bookie.address)
        writer.write(wire.encode_read(1, 0))
        await reader.readexactly(wire.RESPONSE.size)
        try:
            while (timer := timer_of(bookie.port, writer.get_extra_info("sockname")[1])) == RETRANSMIT:
                await asyncio.sleep(0.02)
            return timer
        finally:
            writer.close()

    assert run(main()) == KEEPALIVE


def test_the_error_names_a_metrics_port_that_is_in_use(bookies):
    (bookie,) = bookies.start(1, *METRICS)
    with pytest.raises(BookieFailed, match=f"cannot serve metrics on 127.0.0.1 port {bookie.metrics_port}"):
        bookies.add("--metrics-port", str(bookie.metrics_port)).start()


def test_every_metric_of_a_bookie_is_documented(bookies):
    (bookie,) = bookies.start(1, *METRICS)
    assert undocumented(run(get(bookie.metrics_port, "/metrics"))) == []


def test_a_bookie_that_may_open_only_64_files_goes_on_when_its_index_is_flushed(bookies):
    run_bookie = f'ulimit -n 64; exec {sys.executable} -m mledger.bookie.server "$@"'
    small = ("--journal-mb", "1", "--memtable-mb", "1")
    bookie = bookies.add(*small, command=("bash", "-c", run_bookie, "bookie")).start()

    async def main():
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(RawBookieClient(bookie)) for _ in range(10)]
            for number in range(150):
                for ordinal, client in enumerate(clients):  # ledgers of which no two flushes have the same
                    client.send(wire.encode_add(KEY, entry(number, ordinal, bytes(60_000))))
                assert {(await client.response()).error for client in clients} == {0}
            return {(await client.ask(wire.encode_read(9, at))).error for at, client in enumerate(clients)}

    assert run(main()) == {0}
    assert bookie.stop() == 0
