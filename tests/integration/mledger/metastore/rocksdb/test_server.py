"""A RocksDB metadata server's directory and disk, and how it treats hostile or careless clients."""

import asyncio
import os
import resource
import subprocess
import sys

import pytest

from mledger.metastore.errors import InvalidMetadataDirectory, MetadataAccessDenied, MetadataError, StoreUnavailable
from mledger.metastore.records.pb import MetadataStore_pb2 as pb
from mledger.metastore.rocksdb import server_connection, store, wire
from mledger.metastore.rocksdb.directory import SOCKET, MetadataDirectory, connect
from mledger.metastore.rocksdb.rows import Rows
from mledger.metastore.rocksdb.server import MetadataServer
from mledger.metastore.store import Create, Put, SessionState
from mledger.metastore.url import open_reader, open_store
from tests.support.aio import HANG_S, run
from tests.support.metadata.rocksdb import MetadataProcess, MetadataServerFailed


def test_acknowledged_writes_survive_kill_9_and_multis_are_whole(metadata_process):
    acknowledged = {}

    async def write(number):
        async with await open_store(metadata_process.url) as store:
            await store.multi([Create(f"/{name}-{number}", b"0") for name in ("a", "b")])
            for version in range(10_000):
                data = b"%d" % (version + 1)
                try:
                    await store.multi([Put(f"/{name}-{number}", data, version) for name in ("a", "b")])
                except StoreUnavailable:
                    return
                acknowledged[number] = version + 1
                if version == 10 and number == 0:
                    metadata_process.kill()

    async def check():
        async with await open_store(metadata_process.url) as store:
            for number, version in acknowledged.items():
                one, other = await store.get_many([f"/a-{number}", f"/b-{number}"])
                assert (one.data, one.version) == (other.data, other.version)
                assert one.version == int(one.data)
                assert one.version in (version, version + 1)

    async def main():
        await asyncio.gather(*(write(number) for number in range(8)))
        assert len(acknowledged) == 8
        await asyncio.to_thread(metadata_process.start)
        await check()

    run(main())


def test_more_clients_than_there_are_files_for_wait_and_leave_those_that_are_there_alone(tmp_path):
    async def main():
        server = await MetadataServer.open(str(tmp_path), most_clients=2)
        async with await open_store(server.url) as first, await open_store(server.url) as second:
            waiting = asyncio.create_task(open_store(server.url, timeout=HANG_S))
            with pytest.raises(StoreUnavailable):
                await open_store(server.url, timeout=0.05)
            await first.create("/node")
            await second.close()
            async with await waiting as third:
                assert await third.children("/") == ["node"]
        await server.close()

    run(main())


def test_a_server_raises_the_limit_on_its_files(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    alone = (sys.executable, "-u", "-m", "mledger.metastore.rocksdb.server")  # not forked: it has this process's limit
    process = MetadataProcess(tmp_path / "store", command=alone)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))
    try:
        process.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    raised = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    assert process.stop() == 0
    assert raised == (8_512 if hard == resource.RLIM_INFINITY else min(hard, 8_512), hard)


def test_a_damaged_file_is_named_with_what_to_do(metadata_process):
    async def main():
        async with await open_store(metadata_process.url) as store:
            for number in range(24):
                await store.create(f"/n{number}", os.urandom(500_000))

    run(main())
    assert metadata_process.stop() == 0
    file = min((metadata_process.directory / "store").glob("*.sst"))
    data = file.read_bytes()
    file.write_bytes(data[:100_000] + bytes(1_000) + data[101_000:])
    with pytest.raises(MetadataServerFailed) as failed:
        metadata_process.start()
    assert "is damaged: Corruption: block checksum mismatch" in failed.value.log
    assert "mledger metadata restore" in failed.value.log
    assert (failed.value.returncode, "Traceback" in failed.value.log) == (1, False)


def test_a_long_path_works_too(tmp_path):
    directory = tmp_path / ("deep" * 30) / ("deeper" * 30)
    process = MetadataProcess(directory)
    directory.parent.mkdir(parents=True)
    process.start()
    try:

        async def main():
            async with await open_store(process.url) as store:
                await store.create("/node")
            async with await open_reader(process.url) as reader:
                assert await reader.children("/") == ["node"]

        run(main())
    finally:
        assert process.stop() == 0
    assert not (directory / SOCKET).exists()


def test_one_process_owns_a_directory(metadata_process):
    with pytest.raises(MetadataServerFailed, match="another process serves this directory"):
        MetadataProcess(metadata_process.directory).start()
    with pytest.raises(InvalidMetadataDirectory):
        MetadataDirectory(str(metadata_process.directory))


def test_another_program_s_rocksdb_is_refused_and_not_changed(tmp_path):
    Rows(str(tmp_path / "theirs")).close()
    before = sorted(os.listdir(tmp_path / "theirs"))
    with pytest.raises(MetadataServerFailed, match="another program's RocksDB"):
        MetadataProcess(tmp_path / "theirs").start()
    assert sorted(os.listdir(tmp_path / "theirs")) == before


def test_an_unknown_format_is_refused_and_not_changed(tmp_path):
    directory = tmp_path / "metadata"
    directory.mkdir()
    (directory / "FORMAT").write_text("mledger metadata directory\nversion 2\n")
    with pytest.raises(MetadataServerFailed, match="version 2"):
        MetadataProcess(directory).start()
    assert os.listdir(directory) == ["FORMAT"]


def test_a_store_without_its_format_is_refused(metadata_process):
    metadata_process.stop()
    (metadata_process.directory / "FORMAT").unlink()
    with pytest.raises(MetadataServerFailed, match="FORMAT is missing"):
        metadata_process.start()


def test_a_file_in_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "metadata").write_text("")
    with pytest.raises(MetadataServerFailed, match="cannot be opened"):
        MetadataProcess(tmp_path / "metadata").start()


def log_of(directory):
    return max((directory / "store").glob("*.log"), key=lambda path: path.stat().st_size)


def fill(process):
    """Twenty nodes. The last write is the end of the session that created them."""

    async def main():
        async with await open_store(process.url) as store:
            for number in range(20):
                await store.create(f"/n{number}", b"data" * 50)
            await store.create("/mine", ephemeral=True)
        async with await open_reader(process.url) as reader:
            while await reader.exists("/mine") is not None:
                await asyncio.sleep(0.01)

    run(main())
    process.kill()


def test_a_torn_last_write_was_not_acknowledged_and_is_dropped(metadata_process):
    fill(metadata_process)
    log = log_of(metadata_process.directory)
    os.truncate(log, log.stat().st_size - 5)  # of the end of the session, which comes last
    metadata_process.start()

    async def main():
        async with await open_reader(metadata_process.url) as reader:
            assert await reader.children("/") == sorted(["mine", *(f"n{number}" for number in range(20))])

    run(main())


def test_a_flipped_byte_in_the_log_is_refused_with_an_error(metadata_process):
    fill(metadata_process)
    log = log_of(metadata_process.directory)
    with open(log, "r+b") as file:
        file.seek(log.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 0xFF]))
    with pytest.raises(MetadataServerFailed, match="cannot be opened: Corruption"):
        metadata_process.start()


def test_a_tree_in_memory_behaves_the_same_and_keeps_nothing(tmp_path):
    process = MetadataProcess(tmp_path / "metadata", ("--in-memory",)).start()

    async def main():
        async with await open_store(process.url) as store:
            await store.create("/node", ephemeral=True)
            assert await store.children("/") == ["node"]

    run(main())
    assert os.listdir(process.directory) == [SOCKET]
    assert process.stop() == 0
    durable = MetadataProcess(tmp_path / "metadata").start()
    assert durable.stop() == 0
    with pytest.raises(MetadataServerFailed, match="already holds a store"):
        process.start()


def test_a_full_disk_ends_the_process_and_loses_no_acknowledged_write(tmp_path):
    process = MetadataProcess(tmp_path / "metadata")
    limited = (
        "import resource,sys; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000));"
        "from mledger.metastore.rocksdb.server import main; sys.exit(main(sys.argv[1:]))"
    )
    with process.log_path.open("a") as log:
        process.process = subprocess.Popen(
            [sys.executable, "-c", limited, "--dir", str(process.directory)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.process.stdout.readline()
    acknowledged = []

    async def main():
        async with await open_store(process.url) as store:
            for number in range(100):
                try:
                    acknowledged.append(await store.create(f"/n{number}", bytes(10_000)))
                except StoreUnavailable:
                    break

    run(main())
    assert process.wait() == 1
    said = process.log_path.read_text()
    assert "a write failed, none of it was answered" in said
    assert "Traceback" not in said
    assert 5 < len(acknowledged) < 25
    process.start()

    async def check():
        async with await open_reader(process.url) as reader:
            assert {path.removeprefix("/") for path in acknowledged} <= set(await reader.children("/"))

    run(check())
    process.kill()


# Clients.


def conversation(directory):
    connection = connect(str(directory))
    connection.setblocking(True)
    connection.settimeout(HANG_S)
    return connection


def answers(connection, count):
    frames, found = wire.Frames(pb.Answer), []
    while len(found) < count and (data := connection.recv(65536)):
        found += frames.feed(data)
    return found


def is_cut_off(connection):
    """Whether the server ends the connection, after what it still sends."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


def hello(**fields):
    return wire.frame(pb.Request(id=1, hello=pb.Hello(protocol=wire.PROTOCOL, timeout_ms=60_000, **fields)))


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        b"\xff" * 100,
        wire.frame(pb.Request(id=1, ping=pb.Ping())),
        wire.frame(pb.Request(id=1)),
        hello() + hello(),
        hello() + wire.frame(pb.Request(id=2)),
        hello() + wire.frame(pb.Request(id=2, write=pb.Write(operations=[pb.Operation(kind=9, path="/a")]))),
        hello() + 2 * wire.frame(pb.Request(id=2, watch=pb.Watch(watch_id=1, path="/a"))),
    ],
)
def test_a_client_that_violates_the_protocol_is_disconnected_and_others_continue(rocksdb_url, sent):
    async def main():
        async with await open_store(rocksdb_url) as store:
            with conversation(rocksdb_url.removeprefix("rocksdb:")) as connection:
                connection.sendall(sent)
                assert await asyncio.to_thread(is_cut_off, connection)
            await store.create("/node")

    run(main())


def test_a_client_of_another_protocol_gets_an_error_that_says_so(rocksdb_url):
    with conversation(rocksdb_url.removeprefix("rocksdb:")) as connection:
        connection.sendall(wire.frame(pb.Request(id=1, hello=pb.Hello(protocol=99))))
        (answer,) = answers(connection, 1)
        with pytest.raises(MetadataError, match="protocol 99"):
            raise wire.error_of(answer.refused)


def test_a_read_only_connection_cannot_write(rocksdb_url):
    with conversation(rocksdb_url.removeprefix("rocksdb:")) as connection:
        connection.sendall(hello(only_reads=True) + wire.frame(wire.write_of([Create("/node")])))
        answer = answers(connection, 2)[1]
        with pytest.raises(MetadataAccessDenied):
            raise wire.error_of(answer.refused)


def test_a_session_taken_over_by_a_new_connection_leaves_the_old_one(rocksdb_url):
    directory = rocksdb_url.removeprefix("rocksdb:")
    with conversation(directory) as one, conversation(directory) as other:
        one.sendall(hello() + wire.frame(wire.write_of([Create("/mine", ephemeral=True)])))
        session = answers(one, 2)[0].welcome.session_id
        other.sendall(hello(session_id=session))
        assert answers(other, 1)[0].welcome.session_id == session
        assert is_cut_off(one)
        other.sendall(wire.frame(pb.Request(id=2, read=pb.Read(paths=["/mine"]))))
        assert answers(other, 1)[0].found.nodes[0].stat.ephemeral_owner == session


def test_a_client_that_does_not_read_is_disconnected(rocksdb_url, monkeypatch):
    monkeypatch.setattr(server_connection, "MAX_UNREAD", 1 << 20)
    watches = [pb.Request(id=number, watch=pb.Watch(watch_id=number, path="/node")) for number in range(1, 2001)]

    async def main():
        async with await open_store(rocksdb_url) as store:
            await store.create("/node")
            with conversation(rocksdb_url.removeprefix("rocksdb:")) as connection:
                connection.sendall(hello() + b"".join(map(wire.frame, watches)))
                for version in range(100):  # each notifies all watches
                    await store.put("/node", b"", version)
                assert await asyncio.to_thread(is_cut_off, connection)

    run(main())


def test_large_answers_arrive_in_parts_and_whole(rocksdb_url):
    async def main():
        async with await open_store(rocksdb_url, timeout=HANG_S) as store:
            for number in range(12):
                await store.create(f"/n{number}", bytes([number]) * 900_000)
            paths = [f"/n{number}" for number in range(11, -1, -1)]
            nodes = await store.get_many([*paths, "/none", *paths])
            assert [node and (node.data[0], len(node.data)) for node in nodes] == [
                *((number, 900_000) for number in range(11, -1, -1)),
                None,
                *((number, 900_000) for number in range(11, -1, -1)),
            ]

    run(main())


def test_answers_larger_in_total_than_the_unread_limit_arrive(rocksdb_url, monkeypatch):
    monkeypatch.setattr(store, "PATHS_A_REQUEST", 5)

    async def main():
        async with await open_store(rocksdb_url) as rocksdb:
            await rocksdb.create("/large", b"x" * 1_000_000)
            count = server_connection.MAX_UNREAD // 1_000_000 + 20
            return [len(node.data) for node in await rocksdb.get_many(["/large"] * count)] == [1_000_000] * count

    assert run(main())


def test_reads_asked_for_at_once_arrive_although_they_exceed_the_unread_limit(rocksdb_url, monkeypatch):
    monkeypatch.setattr(server_connection, "MAX_UNREAD", 4 << 20)
    monkeypatch.setattr(server_connection, "TURN_BYTES", 1 << 20)

    async def main():
        async with await open_store(rocksdb_url) as store:
            await store.create("/large", b"x" * 1_000_000)
            found = await asyncio.gather(*(store.get("/large") for _ in range(20)))
            return [len(node.data) for node in found]

    assert run(main()) == [1_000_000] * 20


async def make_children(store, count, size, at_once):
    """Create children of /wide with names of this many bytes, several at once."""
    await store.create("/wide")
    names = [f"{number:0{size}d}" for number in range(count)]
    for start in range(0, count, at_once):
        await store.multi([Create(f"/wide/{name}") for name in names[start : start + at_once]])
    return names


def test_a_node_with_more_children_than_fit_one_request_is_listed(rocksdb_url):
    async def main():
        async with await open_store(rocksdb_url) as store:
            names = await make_children(store, wire.MAX_FRAME // 4000 + 1, 4000, at_once=200)
            return await store.children("/wide") == names

    assert run(main())


def test_a_node_with_too_many_children_is_named_and_others_are_answered(rocksdb_url, monkeypatch):
    monkeypatch.setattr(wire, "MAX_ANSWER", 1 << 16)

    async def main():
        async with await open_store(rocksdb_url) as store:
            await make_children(store, 100, 1000, at_once=10)
            answers = await asyncio.gather(store.children("/wide"), store.children("/"), return_exceptions=True)
            return answers, store.session_state

    (wide, top), state = run(main())
    assert isinstance(wide, MetadataError)
    assert "too many children" in str(wide)
    assert top == ["wide"]
    assert state is SessionState.CONNECTED


def test_a_graceful_stop_leaves_sessions_for_the_next_process(metadata_process):
    async def main():
        async with await open_store(metadata_process.url) as store:
            await store.create("/mine", ephemeral=True)
            assert await asyncio.to_thread(metadata_process.stop) == 0
            await store.wait_for_session(SessionState.SUSPENDED, HANG_S)
            await asyncio.to_thread(metadata_process.start)
            await store.wait_for_session(SessionState.CONNECTED, HANG_S)
            assert (await store.get("/mine")).stat.ephemeral_owner == store.session_id

    run(main())
