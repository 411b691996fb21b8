"""`mledger topics delete` of damaged topics: it deletes them, and says what is unknown."""

from dataclasses import replace

from msgspec import structs

from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.records.paths import ledger_path
from mledger.metastore.records.pb.MLDataFormats_pb2 import OffloadContext as OffloadMessage
from mledger.metastore.records.values import OffloadContext
from mledger.metastore.store import ANY_VERSION
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer, mledger
from tests.support.compacted_topics import compacted_topic, exists
from tests.support.topics import KEEP, ledgers_naming, managed_ledger_of, write_topic

ONE = replace(KEEP, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)


def damage(url: str, path: str) -> None:
    """Replace a node's data with bytes that do not parse."""

    async def main() -> None:
        async with await open_store(url) as store:
            await store.put(path, b"\xff damaged", ANY_VERSION)

    run(main())


def ledgers_of(url: str, topic: str) -> list[int]:
    return [each["ledger_id"] for each in answer("topics", "describe", topic, url=url)["ledgers"]]


def delete(url: str, topic: str, undo_file) -> list[str]:
    """Delete the topic as planned; returns the lines of what is lost."""
    planned = answer("topics", "delete", topic, "--dry-run", url=url)
    answer("topics", "delete", topic, "--yes", "--undo-file", undo_file, url=url)
    assert mledger("topics", "describe", topic, url=url).code == 3
    return planned["lost"]


def test_a_topic_whose_last_ledger_s_metadata_does_not_parse_is_deleted(url, topic, undo_file) -> None:
    run(write_topic(url, topic, ONE))
    last = ledgers_of(url, topic)[-1]
    damage(url, ledger_path(last))
    lost = delete(url, topic, undo_file)
    assert any(line.startswith(f"ledger {last} of {topic}, with an unknown number of entries") for line in lost)
    assert run(ledgers_naming(url, managed_ledger_of(topic))) == set()


def test_copies_in_tiered_storage_that_stay_are_named(url, topic) -> None:
    async def offload() -> None:
        async with await open_store(url) as store:
            path = f"/managed-ledgers/{managed_ledger_of(topic)}"
            node = await store.get(path)
            info = decode_managed_ledger_info(node.data, path).value
            copied = replace(info.ledgers[0], offload=OffloadContext(OffloadMessage(complete=True).SerializeToString()))
            ledgers = (copied, *info.ledgers[1:])
            await store.put(path, encode_managed_ledger_info(structs.replace(info, ledgers=ledgers)), node.version)

    run(write_topic(url, topic, ONE))
    assert answer("topics", "delete", topic, "--dry-run", url=url)["warnings"] == []
    first = ledgers_of(url, topic)[0]
    run(offload())
    (warning,) = answer("topics", "delete", topic, "--dry-run", url=url)["warnings"]
    assert warning == f"{topic}: copies in tiered storage stay, and only the undo file names them: ledger {first}"


def test_a_topic_whose_list_is_out_of_order_is_deleted(url, topic, undo_file) -> None:
    async def list_twice() -> None:
        async with await open_store(url) as store:
            path = f"/managed-ledgers/{managed_ledger_of(topic)}"
            node = await store.get(path)
            info = decode_managed_ledger_info(node.data, path).value
            ledgers = (*info.ledgers, info.ledgers[0])
            await store.put(path, encode_managed_ledger_info(structs.replace(info, ledgers=ledgers)), node.version)

    run(write_topic(url, topic, ONE))
    run(list_twice())
    assert any("states" in line for line in delete(url, topic, undo_file))
    assert run(ledgers_naming(url, managed_ledger_of(topic))) == set()


def test_a_topic_whose_compacted_ledger_s_metadata_does_not_parse_is_deleted(url, topic, undo_file) -> None:
    ours, _ = run(compacted_topic(url, topic, clean=True, config=ONE))
    damage(url, ledger_path(ours["compacted"]))
    lost = delete(url, topic, undo_file)
    (line,) = (line for line in lost if line.startswith(f"ledger {ours['compacted']}, which /managed-ledgers/"))
    assert "stays" in line
    assert not run(exists(url, ours["bucket"]))
