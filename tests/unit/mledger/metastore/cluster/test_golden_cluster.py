"""BookKeeper's own nodes as Java left them: tests/golden/znodes/bk-*.json and wire/zk-readonly-bookie.json."""

import pytest

from mledger.metastore.cluster.bookies import (
    BookieRegistration,
    decode_cookie,
    decode_registration,
    encode_cookie,
    encode_registration,
    list_bookies,
    read_cookie,
)
from mledger.metastore.cluster.layout import check_layout, initialize, instance_id
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.cluster.underreplication import (
    decode_auditor_vote,
    decode_lock,
    decode_underreplicated_ledger,
    encode_auditor_vote,
    encode_lock,
    encode_underreplicated_ledger,
)
from mledger.metastore.memory.store import MemoryStore
from mledger.metastore.records.ledger_codec import decode_ledger_metadata, encode_ledger_metadata
from mledger.metastore.records.paths import (
    bookie_path,
    cookie_path,
    ledger_id_from_path,
    ledger_path,
    underreplicated_path,
    underreplication_lock_path,
)
from tests.support.aio import run
from tests.support.recordings import golden, golden_meaning

SERDE = golden.files("znodes/bk-ledger-metadata-serde-*.json")
LEDGERS = golden.files("znodes/bk-ledgers-*.json")
REGISTRATIONS = [
    "znodes/bk-registrations.json",
    *LEDGERS,
    "wire/zk-readonly-bookie.json",
]


def is_ledger(node):
    return node.decoded is not None and node.decoded.get("type") == "LedgerMetadata"


async def tree(store, root):
    stat = await store.exists(root)
    node = await store.get(root)
    found = {root: (node.data, stat.version, stat.num_children)}
    for name in await store.children(root):
        found.update(await tree(store, f"{root}/{name}"))
    return found


@pytest.mark.parametrize("file", SERDE)
def test_ledger_metadata_in_every_version_is_read_and_written_back(file):
    for case in golden.load(file)["cases"]:
        data, meaning = bytes.fromhex(case["hex"]), case["decoded"]
        metadata = decode_ledger_metadata(data)
        assert golden_meaning.ledger_metadata(meaning["ledgerId"], metadata) == meaning
        assert metadata.format_version == case["formatVersion"]
        assert encode_ledger_metadata(metadata) == data


def test_the_golden_data_has_all_three_versions():
    assert {case["formatVersion"] for file in SERDE for case in golden.load(file)["cases"]} == {1, 2, 3}


@pytest.mark.parametrize("file", [*LEDGERS, "znodes/bk-underreplication.json"])
def test_ledgers_of_every_size_of_id_are_read_and_written_back(file):
    ledgers = [node for node in golden.nodes(file) if is_ledger(node)]
    assert ledgers
    for node in ledgers:
        ledger_id = ledger_id_from_path(node.path)
        assert ledger_path(ledger_id) == node.path
        metadata = decode_ledger_metadata(node.data, node.path)
        assert golden_meaning.ledger_metadata(ledger_id, metadata) == node.decoded
        assert encode_ledger_metadata(metadata) == node.data


@pytest.mark.parametrize("file", LEDGERS)
def test_a_listing_finds_all_ledgers_in_order(file):
    async def listed():
        async with MemoryStore() as store:
            await golden.load_nodes(store, golden.nodes(file))
            return [ledger_id async for page in LedgerStore(store).list() for ledger_id in page]

    expected = sorted(ledger_id_from_path(node.path) for node in golden.nodes(file) if is_ledger(node))
    assert {ledger["ledgerId"] for ledger in golden.load(file)["ledgers"]} <= set(expected)
    assert run(listed()) == expected


def test_an_initialised_cluster_has_the_same_nodes_as_java_s():
    async def initialised():
        async with MemoryStore() as store:
            made = await initialize(store)
            return made, await tree(store, "/ledgers")

    made, found = run(initialised())
    nodes = list(golden.nodes("znodes/bk-init-zookeeper-driver.json"))
    expected = {node.path: (node.data, node.version, node.num_children) for node in nodes}
    theirs = expected["/ledgers/INSTANCEID"][0]
    assert len(made) == len(theirs)
    expected["/ledgers/INSTANCEID"] = (made.encode(), 0, 0)
    assert found == expected


@pytest.mark.parametrize(
    ("file", "root"),
    [
        ("znodes/bk-init-zookeeper-driver.json", "/ledgers"),
        ("znodes/bk-init-pulsar-driver.json", "/pulsar-root/ledgers/ledgers"),
    ],
)
def test_a_cluster_that_java_initialised_is_not_changed(file, root):
    async def again():
        async with MemoryStore() as store:
            await golden.load_nodes(store, golden.nodes(file))
            before = await tree(store, root)
            await check_layout(store, root)
            assert await initialize(store, root) == await instance_id(store, root)
            assert await tree(store, root) == before
            return await instance_id(store, root)

    stored = next(node for node in golden.nodes(file) if node.path == f"{root}/INSTANCEID")
    assert run(again()) == stored.text


@pytest.mark.parametrize("file", REGISTRATIONS)
def test_registrations_are_read_and_written_back(file):
    found = [node for node in golden.nodes(file) if "/available/" in node.path and node.data]
    assert found
    for node in found:
        bookie_id, read_only = node.path.rpartition("/")[2], "/readonly/" in node.path
        registration = decode_registration(bookie_id, node.data, read_only=read_only, path=node.path)
        assert encode_registration(registration.host, registration.port) == node.data
        assert bookie_path(bookie_id, read_only=read_only) == node.path
        assert node.ephemeral
        if node.decoded is not None:
            (endpoint,) = node.decoded["endpoints"]
            assert endpoint == {
                "id": "bookie",
                "port": registration.port,
                "host": registration.host,
                "protocol": "bookie-rpc",
            }


def listed_bookies(file):
    async def listed():
        async with MemoryStore() as store:
            await golden.load_nodes(store, golden.nodes(file))
            return await list_bookies(store)

    return run(listed())


def test_bookies_are_listed_with_their_addresses():
    assert listed_bookies("znodes/bk-registrations.json") == [
        BookieRegistration("127.0.0.1:33481", "127.0.0.1", 33481),
        BookieRegistration("127.0.0.1:33482", "127.0.0.1", 33482),
        BookieRegistration("named-bookie.example-3", "127.0.0.1", 33483),
    ]


def test_a_read_only_bookie_is_listed_as_read_only():
    found = listed_bookies("wire/zk-readonly-bookie.json")
    assert [(each.bookie_id, each.read_only) for each in found] == [
        ("bookie-1", False),
        ("bookie-2", False),
        ("bookie-0", True),
    ]


@pytest.mark.parametrize("file", ["znodes/bk-registrations.json", *LEDGERS])
def test_cookies_are_read_and_written_back(file):
    found = [node for node in golden.nodes(file) if node.path.startswith("/ledgers/cookies/")]
    assert found
    for node in found:
        cookie = decode_cookie(node.data, node.path)
        assert cookie_path(cookie.bookie_id) == node.path
        assert encode_cookie(cookie) == node.data


def test_a_cookie_lists_its_directories():
    async def read():
        async with MemoryStore() as store:
            await golden.load_nodes(store, golden.nodes("znodes/bk-registrations.json"))
            cookie, version = await read_cookie(store, "127.0.0.1:33482")
            assert cookie.instance_id == await instance_id(store)
            return cookie, version

    cookie, version = run(read())
    assert version == 0
    assert cookie.ledger_dirs == ("run-bkznodes/bk1/l1", "run-bkznodes/bk1/l2")
    assert cookie.index_dirs == ("run-bkznodes/bk1/i1",)


def test_marks_and_locks_of_under_replication_are_read_and_written_back():
    seen = set()
    for node in golden.nodes("znodes/bk-underreplication.json"):
        name = node.path.rpartition("/")[2]
        ledger_id = int(name[3:]) if name.startswith("urL") else None
        if "/locks/" in node.path:
            assert underreplication_lock_path(ledger_id) == node.path
            assert encode_lock(decode_lock(node.data, node.path)) == node.data
            assert node.ephemeral
            seen.add("lock")
        elif ledger_id is not None:
            assert underreplicated_path(ledger_id) == node.path
            mark = decode_underreplicated_ledger(node.data, node.path)
            assert mark.ctime > 0
            assert mark.replicas == ("127.0.0.1:33482",)
            assert encode_underreplicated_ledger(mark) == node.data
            seen.add("mark")
        elif node.path.startswith("/ledgers/underreplication/auditorelection"):
            assert encode_auditor_vote(decode_auditor_vote(node.data, node.path)) == node.data
            seen.add("vote")
        elif node.path.startswith("/ledgers/underreplication"):
            assert node.data in {b"", b"0", b'type: "BASIC"\nversion: 1\n'}, str(node)
    assert seen == {"lock", "mark", "vote"}
