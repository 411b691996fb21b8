"""Every record that Java wrote gives the rows that follow from Java's own reading of it."""

import itertools

import pytest

from mledger.metastore.records.paths import LEDGERS
from mledger.snapshot.tables.cursors import CURSOR_HOLES, CURSORS, holes_of
from mledger.snapshot.tables.decoder import decode
from mledger.snapshot.tables.ledgers import ENSEMBLES, members_of
from mledger.snapshot.tables.ledgers import LEDGERS as LEDGERS_TABLE
from mledger.snapshot.tables.node_kinds import NodeKind, kind_of
from mledger.snapshot.tables.records import FoundNode, UnreadableNode
from mledger.snapshot.tables.topics import TOPIC_LEDGERS, TOPICS, topic_ledgers_of
from tests.support.recordings import golden

FILES = golden.files("znodes/*.json") + golden.files("behaviours/*.json")
MS = 1000


def items(kind):
    """Each node of this kind with our decoding and Java's."""
    seen = set()
    for node in itertools.chain.from_iterable(map(golden.nodes, FILES)):
        if node.decoded is None or kind_of(node.path, LEDGERS) is not kind or (node.path, node.data) in seen:
            continue
        seen.add((node.path, node.data))
        found = FoundNode(node.path, node.data, node.version, 1, 2, node.num_children)
        item = decode(kind, found, LEDGERS)
        if not isinstance(item, UnreadableNode):
            yield item, node.decoded, str(node)


def rows(table, values):
    return table.batch(list(values)).to_pylist()


def microseconds(value):
    return None if value is None else int(value.timestamp() * 1000)


def test_topics_are_as_java_reads_them():
    count = 0
    for item, decoded, where in items(NodeKind.TOPIC):
        (row,) = rows(TOPICS, [item])
        infos = decoded["ledgerInfo"]
        assert row["ledgers"] == len(infos), where
        assert row["entries"] == sum(info.get("entries", 0) for info in infos), where
        assert row["size"] == sum(info.get("size", 0) for info in infos), where
        assert dict(row["properties"]) == decoded["properties"], where
        terminated = decoded.get("terminatedPosition", [None, None])
        assert [row["terminated_ledger_id"], row["terminated_entry_id"]] == terminated, where
        count += 1
    assert count > 50


def test_topic_ledgers_are_as_java_reads_them():
    for item, decoded, where in items(NodeKind.TOPIC):
        for row, info in zip(rows(TOPIC_LEDGERS, topic_ledgers_of(item)), decoded["ledgerInfo"], strict=True):
            assert row["ledger_id"] == info["ledgerId"], where
            assert (row["entries"], row["size"]) == (info.get("entries", 0), info.get("size", 0)), where
            assert microseconds(row["closed"]) == (info.get("timestamp") or None), where
            assert dict(row["properties"]) == info["properties"], where
            assert (row["offload_complete"] is None) == ("offloadContext" not in info), where


def test_cursors_are_as_java_reads_them():
    count = 0
    for item, decoded, where in items(NodeKind.CURSOR):
        (row,) = rows(CURSORS, [item])
        assert row["cursor_ledger_id"] == decoded["cursorsLedgerId"], where
        assert row["mark_delete_ledger_id"] == decoded.get("markDeleteLedgerId"), where
        assert row["mark_delete_entry_id"] == decoded.get("markDeleteEntryId"), where
        assert row["holes"] == len(decoded["individualDeletedMessages"]), where
        assert row["partial_batches"] == len(decoded["batchedEntryDeletionIndexInfo"]), where
        assert dict(row["properties"]) == decoded["properties"], where
        assert dict(row["cursor_properties"]) == decoded["cursorProperties"], where
        assert row["state"] == ("znode" if decoded["cursorsLedgerId"] == -1 else "snapshot"), where
        count += 1
    assert count > 50


def test_holes_are_as_java_reads_them():
    for item, decoded, where in items(NodeKind.CURSOR):
        found = rows(CURSOR_HOLES, holes_of(item))
        ranges = [row for row in found if row["ack_set"] is None]
        assert [
            {
                "lowerEndpoint": [row["lower_ledger_id"], row["lower_entry_id"]],
                "upperEndpoint": [row["upper_ledger_id"], row["upper_entry_id"]],
            }
            for row in ranges
        ] == decoded["individualDeletedMessages"], where
        assert [
            {"position": [row["upper_ledger_id"], row["upper_entry_id"]], "deleteSet": row["ack_set"]}
            for row in found
            if row["ack_set"] is not None
        ] == decoded["batchedEntryDeletionIndexInfo"], where


def test_ledgers_are_as_java_reads_them():
    count = 0
    for item, decoded, where in items(NodeKind.LEDGER):
        (row,) = rows(LEDGERS_TABLE, [item])
        closed = decoded["state"] == "CLOSED"
        assert row["state"] == decoded["state"], where
        sizes = (row["ensemble_size"], row["write_quorum"], row["ack_quorum"])
        assert sizes == (decoded["ensembleSize"], decoded["writeQuorumSize"], decoded["ackQuorumSize"]), where
        assert row["last_entry"] == (decoded["lastEntryId"] if closed else None), where
        assert row["length"] == (decoded["length"] if closed else None), where
        assert dict(row["custom_metadata"]) == decoded["customMetadata"], where
        assert row["managed_ledger"] == decoded["customMetadata"].get("pulsar/managed-ledger"), where
        assert row["format_version"] == decoded["metadataFormatVersion"], where
        count += 1
    assert count > 100


def test_ensembles_are_as_java_reads_them():
    for item, decoded, where in items(NodeKind.LEDGER):
        members = {}
        for row in rows(ENSEMBLES, members_of(item)):
            members.setdefault(row["first_entry"], []).append(row["bookie_id"])
        assert members == {each["firstEntryId"]: each["members"] for each in decoded["ensembles"]}, where


def test_no_password_is_in_any_row():
    for item, decoded, where in items(NodeKind.LEDGER):
        if secret := bytes.fromhex(decoded.get("password_hex", "")):
            (row,) = rows(LEDGERS_TABLE, [item])
            assert secret.decode() not in repr(row), where


@pytest.mark.parametrize("table", [TOPICS, TOPIC_LEDGERS, CURSORS, CURSOR_HOLES, LEDGERS_TABLE, ENSEMBLES])
def test_no_rows_give_a_batch_of_the_same_schema(table):
    assert table.batch([]).schema == table.schema
