"""`mledger topics trim --namespace|--all` on a real cluster: one plan, one undo file, and no topic stops another."""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

import mledger as public
from mledger.cli.shared.changes import change_command, undo_files
from mledger.ledgers.bundles import has_topic
from mledger.ledgers.ownership import BROKER_SESSION_S
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.store import ANY_VERSION
from mledger.metastore.url import open_store, parse_url
from tests.support.aio import HANG_S, run
from tests.support.cli import answer, mledger
from tests.support.commands.meanwhile import meanwhile
from tests.support.metadata.tree import tree
from tests.support.topics import KEEP, assert_nothing_orphaned, fill, managed_ledger_of

ONE = {"ensemble_size": 1, "write_quorum_size": 1, "ack_quorum_size": 1}
SMALL = replace(KEEP, **ONE, max_entries_per_ledger=10)
BUNDLES = ("0x00000000_0x80000000", "0x80000000_0xffffffff")
SINGLE = ("--ensemble-size", 1, "--write-quorum", 1, "--ack-quorum", 1)
NO_RETENTION = ("--set", "defaultRetentionTimeInMinutes=0")


@pytest.fixture
def namespace(topic):
    """A namespace that no other test uses."""
    return f"shop/{topic.rpartition('/')[2]}"


@pytest.fixture
def topics(url, namespace):
    """Three topics with 25 entries in three ledgers each, of which a cursor has acknowledged 12."""
    names = [f"persistent://{namespace}/{name}" for name in ("a", "b", "c")]

    async def make() -> None:
        async with public.open_cluster(url, config=SMALL) as cluster:
            for name in names:
                opened = await cluster.create_topic(name)
                cursor = await opened.open_cursor("one")
                positions = await fill(opened, 25)
                await cursor.acknowledge_cumulative(positions[11])
                await opened.close()

    run(make())
    return names


def trim(url, *arguments):
    """Trim many topics."""
    return mledger("topics", "trim", *arguments, *SINGLE, *NO_RETENTION, "--output", "json", url=url)


def entries(url, topic) -> int:
    return answer("topics", "describe", topic, url=url)["entries"]


def write(url, path: str, data: bytes) -> None:
    async def main() -> None:
        async with await open_store(url) as store:
            if await store.exists(path) is None:
                await store.create(path, data, parents=True)
            else:
                await store.put(path, data, ANY_VERSION)

    run(main())


def test_the_topics_of_a_namespace_are_trimmed_by_one_plan_with_one_undo_file(url, namespace, topics, tmp_path) -> None:
    undo_file = tmp_path / "undo.json"
    before = tree(url)
    planned = trim(url, "--namespace", namespace, "--dry-run")
    assert planned.code == 0
    assert tree(url) == before
    assert [each["topic"] for each in planned.json["to_trim"]] == topics
    assert (planned.json["ledgers_deleted"], planned.json["entries_deleted"]) == (3, 30)
    done = trim(url, "--namespace", namespace, "--yes", "--undo-file", undo_file)
    assert done.code == 0, done.err
    assert (done.json["trimmed"], len(done.json["removed"]), done.json["not_trimmed"]) == (3, 3, [])
    assert [entries(url, topic) for topic in topics] == [15, 15, 15]
    assert undo_files.load(undo_file).managed_ledgers == tuple(map(managed_ledger_of, topics))
    for topic in topics:
        run(assert_nothing_orphaned(url, managed_ledger_of(topic)))
    undone = mledger("undo", undo_file, "--yes", "--undo-file", tmp_path / "redo.json", *SINGLE, url=url)
    assert undone.code == 0, undone.err


def test_the_topics_of_other_namespaces_are_trimmed_only_by_all(url, namespace, topics) -> None:
    assert trim(url, "--namespace", "shop/empty-of-it", "--dry-run").code == 3
    wanted = {each["topic"] for each in trim(url, "--all", "--dry-run").json["to_trim"]}
    assert wanted >= set(topics)


def test_policies_are_respected_and_unreadable_ones_are_named(url, namespace, topics, tmp_path) -> None:
    kept = {"retention_policies": {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1}}
    write(url, f"/admin/policies/{namespace}", json.dumps(kept).encode())
    assert trim(url, "--namespace", namespace, "--dry-run").json["to_trim"] == []
    write(url, f"/admin/policies/{namespace}", b"{not json")
    done = trim(url, "--namespace", namespace, "--yes", "--undo-file", tmp_path / "undo.json")
    assert done.code == 1
    assert [each["topic"] for each in done.json["left"]] == topics
    assert all("policies" in each["reason"] for each in done.json["left"])
    assert [entries(url, topic) for topic in topics] == [25, 25, 25]


def test_a_topic_with_a_live_owner_is_named_and_the_others_are_trimmed(
    url, namespace, topics, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("mledger.settings.SESSION_TIMEOUT_S", 1.0)
    settings = ("--set", "metadataStoreSessionTimeoutMillis=2000")

    async def main():
        async with public.open_cluster(url, config=SMALL) as cluster:
            owned = await cluster.open_topic(topics[1])
            await owned.initialized()
            words = ("--namespace", namespace, *settings)
            planned = await asyncio.to_thread(trim, url, *words, "--dry-run")
            done = await asyncio.to_thread(trim, url, *words, "--yes", "--undo-file", tmp_path / "undo.json")
            await owned.add(b"still the owner")
            return planned, done

    planned, done = run(main())
    assert planned.code == 0
    assert [each["topic"] for each in planned.json["left"]] == [topics[1]]
    assert done.code == 4
    assert topics[1] in done.err
    assert done.json["trimmed"] == 2
    assert [entries(url, topic) for topic in topics] == [15, 26, 15]


def test_topics_that_a_live_broker_serves_are_named_and_left_at_once_and_the_others_are_trimmed(
    url, namespace, topics, tmp_path
) -> None:
    bundle = next(each for each in BUNDLES if has_topic(each, public.TopicName.parse(topics[1])))
    served = [each for each in topics if has_topic(bundle, public.TopicName.parse(each))]
    others = [each for each in topics if each not in served]

    async def main():
        listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        said = {"nativeUrl": f"pulsar://127.0.0.1:{port}", "webServiceUrl": "http://127.0.0.1:8080"}
        async with listening, await open_store(url) as broker:
            for path in (f"/namespace/{namespace}/{bundle}", "/loadbalance/brokers/127.0.0.1:8080"):
                await broker.create(path, json.dumps(said).encode(), ephemeral=True, parents=True)
            before = await broker.get_many([f"/managed-ledgers/{managed_ledger_of(each)}" for each in served])
            words = ("--namespace", namespace)
            planned = await asyncio.to_thread(trim, url, *words, "--dry-run")
            began = time.monotonic()
            done = await asyncio.to_thread(trim, url, *words, "--yes", "--undo-file", tmp_path / "undo.json")
            took_s = time.monotonic() - began
            after = await broker.get_many([f"/managed-ledgers/{managed_ledger_of(each)}" for each in served])
            assert after == before
            taken = await asyncio.to_thread(
                trim, url, *words, "--yes", "--take-over", "--undo-file", tmp_path / "taken.json"
            )
            await broker.delete("/loadbalance/brokers/127.0.0.1:8080", ANY_VERSION)
            await broker.delete("/loadbalance/brokers", ANY_VERSION)  # else a broker was part of the cluster
            return planned, done, took_s, taken, port

    planned, done, took_s, taken, port = run(main(), timeout=120.0)
    assert planned.code == 0
    assert [each["topic"] for each in planned.json["left"]] == served
    assert done.code == 4
    assert [each["topic"] for each in done.json["not_trimmed"]] == served
    assert all(
        f"the Pulsar broker pulsar://127.0.0.1:{port} serves its bundle" in line for line in done.err.splitlines()
    )
    assert done.json["trimmed"] == len(others)
    assert took_s < BROKER_SESSION_S  # one that answers is not waited for
    assert (taken.code, taken.json["trimmed"]) == (0, len(served))
    assert [entries(url, topic) for topic in topics] == [15, 15, 15]


@pytest.mark.parametrize("before", ["look again", "act"])
def test_a_topic_that_gets_an_owner_meanwhile_is_left_out_and_named(
    url, namespace, topics, tmp_path, monkeypatch, before
) -> None:
    undo_file = tmp_path / "undo.json"

    async def own_for_a_while() -> None:
        async with public.open_cluster(url, config=SMALL) as cluster:
            await (await cluster.open_topic(topics[0])).close()

    meanwhile(monkeypatch, before, lambda: run(own_for_a_while()))
    done = trim(url, "--namespace", namespace, "--yes", "--undo-file", undo_file)
    assert done.code == 4
    assert [each["topic"] for each in done.json["not_trimmed"]] == [topics[0]]
    assert [entries(url, topic) for topic in topics] == [25, 15, 15]
    file = undo_files.load(undo_file)
    assert file.managed_ledgers == tuple(map(managed_ledger_of, topics[1:]))
    assert not [path for path in file.paths if managed_ledger_of(topics[0]) in path]


def test_a_topic_that_is_deleted_meanwhile_is_not_one_that_undo_creates_again(
    url, namespace, topics, tmp_path, monkeypatch
) -> None:
    undo_file = tmp_path / "undo.json"

    async def delete() -> None:
        async with public.open_cluster(url, config=SMALL) as cluster:
            await cluster.delete_topic(topics[0])

    meanwhile(monkeypatch, "act", lambda: run(delete()))
    done = trim(url, "--namespace", namespace, "--yes", "--undo-file", undo_file)
    assert [each["topic"] for each in done.json["not_trimmed"]] == [topics[0]]
    assert undo_files.load(undo_file).managed_ledgers == tuple(map(managed_ledger_of, topics[1:]))


def test_the_undo_of_a_sweep_that_lost_the_store_has_only_topics_that_it_had_begun(
    url, namespace, topics, tmp_path, monkeypatch
) -> None:
    undo_file = tmp_path / "undo.json"
    steps: list[str] = []

    def lose_at_second(step: str) -> None:
        steps.append(step)
        if steps.count("create ledger") == 2:
            raise StoreUnavailable("the store went away")

    monkeypatch.setattr(change_command, "on_step", lose_at_second)
    done = trim(url, "--namespace", namespace, "--yes", "--undo-file", undo_file)
    assert done.code == 5
    assert undo_files.load(undo_file).managed_ledgers == tuple(map(managed_ledger_of, topics[:2]))


def test_the_undo_of_an_interrupted_sweep_leaves_out_a_topic_that_was_deleted_before_its_turn(
    url, namespace, topics, tmp_path, monkeypatch
) -> None:
    undo_file = tmp_path / "undo.json"
    steps: list[str] = []

    async def delete() -> None:
        async with public.open_cluster(url, config=SMALL) as cluster:
            await cluster.delete_topic(topics[0])

    def delete_first_and_lose_the_third(step: str) -> None:
        steps.append(step)
        if step == "act":
            with ThreadPoolExecutor() as pool:
                pool.submit(run, delete()).result()
        if steps.count("create ledger") == 2:
            raise StoreUnavailable("the store went away")

    monkeypatch.setattr(change_command, "on_step", delete_first_and_lose_the_third)
    done = trim(url, "--namespace", namespace, "--yes", "--undo-file", undo_file)
    assert done.code == 5
    file = undo_files.load(undo_file)
    assert file.managed_ledgers == tuple(map(managed_ledger_of, topics[1:]))
    assert not [path for path in file.paths if managed_ledger_of(topics[0]) in path]


def test_the_undo_of_a_sweep_that_ended_while_it_waited_for_an_owner_leaves_that_ones_topic_out(
    url, namespace, topics, tmp_path, monkeypatch
) -> None:
    undo_file = tmp_path / "undo.json"

    async def wait(reader, managed_ledger, **options) -> None:
        if managed_ledger == managed_ledger_of(topics[1]):
            raise StoreUnavailable("the store went away")

    meanwhile(monkeypatch, "act", lambda: monkeypatch.setattr("mledger.cluster.check_owner", wait))
    done = trim(url, "--namespace", namespace, "--yes", "--undo-file", undo_file)
    assert done.code == 5
    assert undo_files.load(undo_file).managed_ledgers == (managed_ledger_of(topics[0]),)


@pytest.mark.parametrize("arguments", [(), ("--all", "--namespace", "a/b"), ("orders", "--all")])
def test_exactly_one_of_topic_namespace_and_all_must_be_given(url, arguments) -> None:
    assert mledger("topics", "trim", *arguments, url=url).code == 2


@pytest.mark.parametrize("many", [True, False], ids=["of many", "alone"])
def test_a_topic_of_which_nothing_went_since_a_cursor_cannot_be_read_is_not_said_to_be_trimmed(
    url, namespace, topics, tmp_path, monkeypatch, many
) -> None:
    def step(name: str) -> None:
        if name == "act":
            with ThreadPoolExecutor() as pool:
                pool.submit(write, url, f"/managed-ledgers/{managed_ledger_of(topics[0])}/one", b"no record").result()

    monkeypatch.setattr(change_command, "on_step", step)
    scope = ("--namespace", namespace) if many else (topics[0],)
    done = trim(url, *scope, "--yes", "--undo-file", tmp_path / "undo.json")
    assert done.code == 5
    assert f"nothing of {managed_ledger_of(topics[0])} was trimmed" in done.err
    assert [entries(url, topic) for topic in topics] == ([25, 15, 15] if many else [25, 25, 25])


@pytest.fixture
def closed_topic(url, topics):
    """The second of the topics, whose record only another login may read."""
    parsed = parse_url(url)
    client = KazooClient(parsed.connect_string + parsed.chroot, auth_data=[("digest", "owner:password")])
    client.start(timeout=HANG_S)
    path = f"/managed-ledgers/{managed_ledger_of(topics[1])}"
    client.set_acls(path, [make_digest_acl("owner", "password", all=True)])
    yield topics[1]
    client.set_acls(path, OPEN_ACL_UNSAFE)
    client.stop()
    client.close()


def test_a_topic_that_access_control_closes_is_reported_and_does_not_stop_the_others(
    url, namespace, topics, closed_topic
):
    done = trim(url, "--namespace", namespace, "--yes")
    (left,) = json.loads(done.out)["not_trimmed"]
    assert (left["topic"], "closed to this client" in left["reason"]) == (closed_topic, True)
    assert (done.code, f"{closed_topic} was not trimmed" in done.err) == (1, True)
    assert [entries(url, topic) for topic in topics if topic != closed_topic] == [15, 15]
