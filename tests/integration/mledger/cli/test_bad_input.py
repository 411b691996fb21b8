"""Bad input on a real cluster: the right error and exit code, and nothing written."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

import mledger as public
from mledger.bookie.client.client import BookKeeper
from mledger.metastore.records.position import Position
from mledger.metastore.store import MetadataStore
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.metadata.tree import tree


def with_store(url: str, work: Callable[[MetadataStore], Awaitable[None]]) -> None:
    async def main() -> None:
        async with await open_store(url) as store:
            await work(store)

    run(main())


def path_of(topic: str) -> str:
    return f"/managed-ledgers/public/default/persistent/{topic.rpartition('/')[2]}"


def overwrite(url: str, path: str, data: bytes) -> None:
    """Put other bytes into a node."""

    async def work(store: MetadataStore) -> None:
        await store.put(path, data, (await store.get(path)).version)

    with_store(url, work)


def fails(url: str, code: int, said: str, *arguments: object, stdin: str = "entry\n") -> None:
    """Assert that the command exits with `code` and prints one line with `said`, and that no node has changed."""
    before = tree(url)
    done = mledger(*arguments, url=url, stdin=stdin)
    assert done.code == code, done
    assert said in done.err
    assert len(done.err.splitlines()) == 1, done.err
    assert tree(url) == before


WRITING = (["topics", "produce"], ["cursors", "recover", "--apply"])
LOOKING = (["topics", "describe"], ["topics", "read"], ["cursors", "list"], ["cursors", "recover"])


@pytest.mark.parametrize("verb", [*WRITING, *LOOKING], ids=" ".join)
def test_an_unknown_topic_is_not_found(url, verb) -> None:
    fails(url, 3, "no-such-topic", *verb, "persistent://public/default/no-such-topic")


@pytest.mark.parametrize("verb", ["describe", "recover"])
def test_an_unknown_cursor_is_not_found(url, topic, verb) -> None:
    ok("topics", "create", topic, url=url)
    fails(url, 3, "no-such-cursor", "cursors", verb, topic, "no-such-cursor")


def test_an_unknown_cursor_is_not_recovered_by_apply(url, topic) -> None:
    ok("topics", "create", topic, url=url)
    fails(url, 3, "no-such-cursor", "cursors", "recover", topic, "no-such-cursor", "--apply")


def test_an_unknown_ledger_or_node_is_not_found(url) -> None:
    fails(url, 3, "987654", "ledgers", "describe", 987654)
    fails(url, 3, "987654", "ledgers", "read", 987654)
    fails(url, 3, "/no/such", "metadata", "get", "/no/such")
    fails(url, 3, "/no/such", "metadata", "tree", "/no/such")


@pytest.mark.parametrize("verb", [*WRITING, *LOOKING], ids=" ".join)
def test_an_unreadable_topic_record_is_an_error_that_names_it(url, topic, verb) -> None:
    ok("topics", "create", topic, url=url)
    overwrite(url, path_of(topic), b"\x0a\xff\xff\xff")
    fails(url, 1, path_of(topic), *verb, topic)


def test_an_unreadable_ledger_record_is_an_error_that_names_it(url, topic) -> None:
    ok("topics", "create", topic, url=url)
    ledger = int(answer("topics", "produce", topic, "--count", 3, url=url)["first"].split(":")[0])
    path = f"/ledgers/{ledger:010}"
    path = f"/ledgers/{path[9:11]}/{path[11:15]}/L{path[15:]}"
    overwrite(url, path, b"BookieMetadataFormatVersion\t3\n\xff\xff")
    fails(url, 1, path, "ledgers", "describe", ledger)


def test_an_unreadable_cursor_record_is_named_and_the_others_are_shown(url, topic) -> None:
    ok("topics", "create", topic, url=url)
    for name in ("good", "wrong"):
        ok("cursors", "create", topic, name, url=url)
    overwrite(url, f"{path_of(topic)}/wrong", b"\x08")
    fails(url, 1, f"{path_of(topic)}/wrong", "cursors", "describe", topic, "wrong")
    shown = mledger("cursors", "list", topic, "--output", "json", url=url)
    assert shown.code == 1
    assert [(each["cursor"], each["backlog"]) for each in shown.json] == [("good", 0), ("wrong", None)]


def test_a_truncated_cursor_state_falls_back_to_the_snapshot_with_a_warning(url, topic) -> None:
    ok("topics", "create", topic, url=url)
    ok("cursors", "create", topic, "one", url=url)
    ledger = int(answer("topics", "produce", topic, "--count", 10, url=url)["first"].split(":")[0])
    leave_cursor_ledger_ending_with(url, topic, "one", Position(ledger, 4), b"\x08\x05\x10")
    before = tree(url)
    (plan,) = answer("cursors", "recover", topic, "one", url=url)
    assert plan["rules"][0] == "R4"
    assert plan["warnings"] != []
    assert tree(url) == before


def leave_cursor_ledger_ending_with(url: str, topic: str, cursor: str, acked: Position, state: bytes) -> None:
    """Let an owner die whose cursor ledger ends with an entry of `state`."""

    async def main() -> None:
        async with public.open_cluster(url) as cluster:
            opened = await cluster.open_topic(topic)
            owned = await opened.open_cursor(cursor)
            await owned.acknowledge([acked])
            cursor_ledger = owned.cursor_ledger
            await opened.abandon()
        async with await open_store(url) as store:
            bookkeeper = BookKeeper(store)
            await bookkeeper.open_ledger(cursor_ledger)
            writer = await bookkeeper.create_ledger(2, 2, 2)
            await writer.append([state])
            await writer.close()
            await bookkeeper.close()
            await point_cursor_at(store, f"{path_of(topic)}/{cursor}", writer.ledger_id)

    run(main())


async def point_cursor_at(store: MetadataStore, path: str, ledger_id: int) -> None:

    from mledger.metastore.records.codec import decode_managed_cursor_info, encode_managed_cursor_info

    node = await store.get(path)
    record = decode_managed_cursor_info(node.data, path).value
    await store.put(path, encode_managed_cursor_info(replace(record, cursors_ledger_id=ledger_id)), node.version)


def test_a_wrong_password_is_refused(url, topic, tmp_path) -> None:
    right, wrong = tmp_path / "right.conf", tmp_path / "wrong.conf"
    right.write_text("managedLedgerPassword=right\n")
    wrong.write_text("managedLedgerPassword=wrong\n")
    ok("topics", "create", topic, "--config", right, url=url)
    ok("cursors", "create", topic, "keeps", "--config", right, url=url)
    produced = answer("topics", "produce", topic, "--config", right, "--count", 3, "--raw", url=url)
    ledger = produced["first"].split(":")[0]
    fails(url, 1, "password", "ledgers", "read", ledger, "--password", "wrong")
    assert ok("ledgers", "read", ledger, "--password", "right", url=url).out.count("\n") == 3


def test_commands_that_only_read_take_the_password_that_a_ledger_has(url, topic, tmp_path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text("managedLedgerPassword=right\n")
    ok("topics", "create", topic, "--config", config, url=url)
    ok("cursors", "create", topic, "keeps", "--config", config, url=url)
    ok("topics", "produce", topic, "--config", config, "--count", 3, "--raw", url=url)
    for command in ("topics describe", "topics stats-internal", "topics read", "cursors list", "ledgers check --topic"):
        ok(*command.split(), topic, url=url)


@pytest.mark.parametrize("verb", ["create", "produce"])
def test_an_ensemble_larger_than_the_number_of_bookies_is_unavailable(url, topic, verb) -> None:
    if verb == "produce":
        ok("topics", "create", topic, url=url)
    fails(url, 5, "bookies", "topics", verb, topic, "--ensemble-size", 5)


@pytest.mark.parametrize("name", ["..", "", "."])
def test_a_cursor_of_an_invalid_name_is_refused_before_the_topic_is_opened(url, topic, name) -> None:
    ok("topics", "create", topic, url=url)
    fails(url, 2, "cannot be the name of a node", "cursors", "create", topic, name)


def test_a_cursor_that_exists_is_refused_before_the_topic_is_opened(url, topic) -> None:
    ok("topics", "create", topic, url=url)
    ok("cursors", "create", topic, "a/b c", url=url)
    fails(url, 4, "has a cursor a/b c already", "cursors", "create", topic, "a/b c")


def test_an_unreadable_record_of_a_partitioned_topic_is_named_and_the_other_topics_are_shown(url, topic) -> None:
    for partitions, name in ((2, f"{topic}-good"), (1, f"{topic}-wrong")):
        ok("topics", "create", name, "--partitions", partitions, url=url)
    wrong = f"/admin/partitioned-topics/public/default/persistent/{topic.rpartition('/')[2]}-wrong"
    overwrite(url, wrong, b"no json")
    for flags, key, shown in (((), "partition_of", 2), (("--partitioned",), "topic", 1)):
        done = mledger("topics", "list", "public/default", *flags, "--output", "json", url=url)
        assert done.code == 1
        assert wrong in done.err
        assert [each[key] for each in done.json].count(f"{topic}-good") == shown
    overwrite(url, wrong, b'{"partitions":1}')
