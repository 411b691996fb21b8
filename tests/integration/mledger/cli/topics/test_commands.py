"""`mledger topics` on a real cluster."""

import pytest

from tests.support.cli import answer, mledger, ok

LEDGERS = ("--ensemble-size", 3, "--write-quorum", 3, "--ack-quorum", 2)


def create_kept(url: str, topic: str) -> None:
    """A topic whose ledgers stay: a cursor has acknowledged none of it."""
    ok("topics", "create", topic, url=url)
    ok("cursors", "create", topic, "keeps", url=url)


def test_a_created_topic_is_listed_under_its_namespace(url) -> None:
    ok("topics", "create", "persistent://tenant/here/a b~", url=url)
    ok("topics", "create", "persistent://tenant/there/a", url=url)
    listed = answer("topics", "list", "tenant/here", url=url)
    (only,) = listed
    assert (only["topic"], only["managed_ledger"]) == ("persistent://tenant/here/a b~", "tenant/here/persistent/a+b%7E")
    assert len(answer("topics", "list", "tenant", url=url)) == 2


@pytest.mark.parametrize("option", [(), ("--partitioned",)])
def test_an_unknown_namespace_is_not_found(url, option) -> None:
    for name in ("nobody", "public/nothing"):
        refused = mledger("topics", "list", name, *option, url=url)
        assert refused.code == 3
        assert name in refused.err
    assert mledger("topics", "repair", "--namespace", "public/nothing", "--dry-run", url=url).code == 3


def test_properties_given_at_creation_are_described(url, topic) -> None:
    ok("topics", "create", topic, "--property", "team=storage", url=url)
    assert answer("topics", "describe", topic, url=url)["properties"] == {"team": "storage"}


def test_lines_published_are_read_back_in_order(url, topic) -> None:
    ok("topics", "create", topic, *LEDGERS, url=url)
    lines = [f"line {number}" for number in range(1200)]
    published = answer("topics", "produce", topic, *LEDGERS, url=url, stdin="\n".join(lines) + "\n")
    assert published["published"] == 1200
    assert ok("topics", "read", topic, url=url).out.splitlines() == lines


def test_a_file_can_be_published_by_lines_or_whole(url, topic, tmp_path) -> None:
    create_kept(url, topic)
    file = tmp_path / "file"
    file.write_bytes(b"one\ntwo\xff\n")
    assert answer("topics", "produce", topic, "--file", file, url=url)["published"] == 2
    assert answer("topics", "produce", topic, "--file", file, "--whole", url=url)["published"] == 1
    entries = ok("topics", "read", topic, "--output", "json", url=url).lines
    assert [entry.get("payload") for entry in entries] == ["one", None, None]
    assert [entry["size"] for entry in entries] == [3, 4, 9]


def test_generated_entries_have_the_requested_count_and_size(url, topic) -> None:
    ok("topics", "create", topic, url=url)
    published = answer("topics", "produce", topic, "--count", 700, "--size", 20, "--raw", url=url)
    described = answer("topics", "describe", topic, url=url)
    assert published["published"] == described["entries"] == 700
    assert described["size"] == 14_000


def test_messages_have_key_properties_and_sequence_id(url, topic) -> None:
    ok("topics", "create", topic, url=url)
    arguments = ("--key-separator", ":", "--property", "source=test", "--producer-name", "me", "--sequence-id", 5)
    published = answer("topics", "produce", topic, *arguments, url=url, stdin="a:1\nb:2\n")
    assert (published["published"], published["entries"]) == (2, 2)
    first, second = ok("topics", "read", topic, "--output", "json", url=url).lines
    assert (first["key"], first["payload"], first["sequence_id"], first["batch_index"]) == ("a", "1", 5, None)
    assert (second["key"], second["payload"], second["sequence_id"]) == ("b", "2", 6)
    assert (first["properties"], first["producer_name"], first["index"]) == ({"source": "test"}, "me", None)
    assert ok("topics", "read", topic, url=url).out == "1\n2\n"


@pytest.mark.parametrize("compression", ["none", "lz4", "zlib", "zstd", "snappy"])
def test_batches_are_read_as_the_messages_in_them(url, topic, compression) -> None:
    ok("topics", "create", topic, url=url)
    arguments = ("--batch", 4, "--compression", compression)
    published = answer("topics", "produce", topic, "--count", 10, *arguments, url=url)
    assert (published["published"], published["entries"]) == (10, 3)
    read = ok("topics", "read", topic, "--output", "json", url=url).lines
    assert [each["batch_index"] for each in read] == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert [int(each["payload"]) for each in read] == list(range(10))


def test_messages_are_numbered_on_if_a_broker_numbers_them(url, topic) -> None:
    ok("topics", "create", topic, "--property", "index=41", url=url)
    for _ in range(2):
        ok("topics", "produce", topic, "--count", 3, "--batch", 3, url=url)
    read = ok("topics", "read", topic, "--output", "json", url=url).lines
    assert read[-1]["index"] == 47
    assert read[-1]["broker_time"] == read[-1]["publish_time"]
    assert answer("topics", "describe", topic, url=url)["properties"] == {"index": "47"}


def test_raw_entries_are_published_and_read_unchanged(url, topic) -> None:
    ok("topics", "create", topic, url=url)
    ok("topics", "produce", topic, "--raw", url=url, stdin="a\nb\n")
    assert ok("topics", "read", topic, "--raw", url=url).out == "ab"
    assert ok("topics", "read", topic, url=url).out == "a\nb\n"
    refused = mledger("topics", "produce", topic, "--raw", "--key", "k", url=url)
    assert refused.code == 2
    assert "--raw" in refused.err


def test_reading_is_bounded_by_positions_and_limit(url, topic) -> None:
    ok("topics", "create", topic, url=url)
    first = answer("topics", "produce", topic, "--count", 10, url=url)["first"]
    ledger = first.split(":")[0]
    read = ok(
        "topics", "read", topic, "--first", f"{ledger}:2", "--last", f"{ledger}:7", "--output", "json", url=url
    ).lines
    assert [entry["position"] for entry in read] == [f"{ledger}:{entry}" for entry in range(2, 8)]
    limited = ok("topics", "read", topic, "--limit", 3, "--output", "json", url=url).lines
    assert [entry["position"] for entry in limited] == [f"{ledger}:{entry}" for entry in range(3)]


def test_each_producer_closes_its_ledger_and_describe_shows_them_all(url, topic) -> None:
    create_kept(url, topic)
    for _ in range(2):
        ok("topics", "produce", topic, "--count", 5, url=url)
    described = answer("topics", "describe", topic, url=url)
    assert [each["entries"] for each in described["ledgers"] if each["entries"]] == [5, 5]
    assert described["entries"] == 10


def test_settings_are_taken_from_a_broker_conf(url, topic, tmp_path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "# of a broker\nmanagedLedgerDefaultEnsembleSize=3\nmanagedLedgerDefaultWriteQuorum = 3\n"
        "managedLedgerDefaultAckQuorum=2\nclusterName=unread\n"
    )
    ok("topics", "create", topic, "--config", conf, url=url)
    published = answer("topics", "produce", topic, "--config", conf, "--count", 1, url=url)
    ledger = answer("ledgers", "describe", published["first"].split(":")[0], url=url)
    assert (ledger["ensemble_size"], ledger["write_quorum"], ledger["ack_quorum"]) == (3, 3, 2)


def test_creating_an_existing_topic_is_a_conflict(url, topic) -> None:
    ok("topics", "create", topic, url=url)
    done = mledger("topics", "create", topic, url=url)
    assert done.code == 4
    assert topic in done.err
