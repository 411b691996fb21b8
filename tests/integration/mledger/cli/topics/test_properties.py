"""`mledger topics set-properties` on a real cluster: plan, change and undo."""

import mledger as public
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.store import ANY_VERSION
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import mledger, ok
from tests.support.commands.topic_changes import change, described, filled, undo


def test_properties_are_set_and_removed_by_one_write_of_the_record(url, topic, undo_file) -> None:
    run(filled(url, topic, 22))
    before = described(url, topic)
    done = change(url, undo_file, "set-properties", topic, "owner=alice", "text=a=b", "--remove", "team")
    after = described(url, topic)
    assert done["properties"] == after["properties"] == {"owner": "alice", "text": "a=b"}
    assert after["metadata_version"] == before["metadata_version"] + 1
    assert after["ledgers"] == before["ledgers"]
    assert undo(url, undo_file).code == 0
    assert described(url, topic)["properties"] == {"team": "red"}


def test_a_compressed_record_stays_compressed(url, topic, undo_file) -> None:
    ok("topics", "create", topic, url=url)
    path = public.TopicName.parse(topic).managed_ledger_path

    async def rewrite(compression: str | None) -> str:
        async with await open_store(url) as store:
            decoded = decode_managed_ledger_info((await store.get(path)).data)
            if compression is not None:
                await store.put(path, encode_managed_ledger_info(decoded.value, compression=compression), ANY_VERSION)
            return decoded.compression

    run(rewrite("ZSTD"))
    change(url, undo_file, "set-properties", topic, "owner=alice")
    assert run(rewrite(None)) == "ZSTD"


def test_a_partitioned_topic_s_properties_are_where_pulsar_keeps_them(url, topic, undo_file) -> None:
    ok("topics", "create", topic, "--partitions", 2, "--property", "team=red", url=url)
    change(url, undo_file, "set-properties", topic, "owner=alice", "--remove", "team")
    assert described(url, topic)["properties"] == {"owner": "alice"}
    assert described(url, f"{topic}-partition-0")["properties"] == {}
    assert undo(url, undo_file).code == 0
    assert described(url, topic)["properties"] == {"team": "red"}


def test_properties_that_are_set_already_are_nothing_to_do(url, topic, undo_file) -> None:
    run(filled(url, topic, 0))
    assert "nothing to do" in ok("topics", "set-properties", topic, "team=red", url=url).out
    assert mledger("topics", "set-properties", topic, url=url).code == 2
    assert mledger("topics", "set-properties", topic, "a=b", "--remove", "a", url=url).code == 2
