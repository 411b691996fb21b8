"""A record with a value that no column holds is a row of `errors`, and keeps no other record from being read."""

import json

import pytest

from mledger.metastore.records.codec import encode_managed_cursor_info, encode_managed_ledger_info
from mledger.metastore.records.ledger_codec import encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import DigestType, LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import LEDGERS
from mledger.metastore.records.pb import MLDataFormats_pb2 as pb
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import BatchDeletion, LedgerInfo, ManagedCursorInfo, ManagedLedgerInfo
from mledger.snapshot.tables.changes import changes_of
from mledger.snapshot.tables.node_kinds import kind_of
from mledger.snapshot.tables.records import FoundNode
from mledger.snapshot.tables.row_builder import TABLES, Assembly
from mledger.snapshot.tables.scope import TopicScope
from mledger.snapshot.zookeeper_files.transactions.znode_changes import ZnodeChange

TOPIC = "/managed-ledgers/t/n/persistent/x"
MOST, LEAST = (1 << 63) - 1, -(1 << 63)
HALF = "\ud800"


def topic(*ledgers):
    return encode_managed_ledger_info(ManagedLedgerInfo(ledgers))


def cursor(**fields):
    return encode_managed_cursor_info(ManagedCursorInfo(-1, Position(1, 1), **fields))


def offloaded(name):
    info = pb.ManagedLedgerInfo()
    info.ledgerInfo.add(ledgerId=1).offloadContext.driverMetadata.name = "driver"
    return info.SerializeToString().replace(b"driver", name)


def ledger(**fields):
    sizes = {"ensemble_size": 1, "write_quorum": 1, "ack_quorum": 1, "digest_type": DigestType.CRC32C, "password": b""}
    whole = sizes | {"segments": (Segment(0, ("b:1",)),), "state": LedgerState.CLOSED, "length": 1} | fields
    return encode_ledger_metadata(LedgerMetadata(**whole))


ODD = {
    "entries together": (TOPIC, topic(LedgerInfo(1, MOST), LedgerInfo(2, 1))),
    "sizes together": (TOPIC, topic(LedgerInfo(1, 1, MOST), LedgerInfo(2, 1, MOST))),
    "a ledger's time": (TOPIC, topic(LedgerInfo(1, 1, 1, MOST))),
    "an offload's text": (TOPIC, offloaded(b"dr\xffver")),
    "a topic's name": (f"/managed-ledgers/t/n/persistent/{HALF}", b""),
    "a cursor's time": (f"{TOPIC}/c", cursor(last_active=LEAST)),
    "a range": (f"{TOPIC}/c", cursor(ranges=(PositionRange(Position(1, LEAST), Position(1, MOST)),))),
    "a batch": (f"{TOPIC}/c", cursor(batch_deletions=(BatchDeletion(Position(1, LEAST), (1,)),))),
    "a cursor's name": (f"{TOPIC}/{HALF}", cursor()),
    "a ledger's entries": (f"{LEDGERS}/00/0000/L0001", ledger(last_entry=MOST)),
    "a ledger's creation": (f"{LEDGERS}/00/0000/L0001", ledger(last_entry=1, ctime=MOST)),
    "partitions": ("/admin/partitioned-topics/t/n/persistent/x", b'{"partitions": 2147483648}'),
    "a property": ("/admin/partitioned-topics/t/n/persistent/x", b'{"partitions": 1, "properties": {"a": "\\ud800"}}'),
    "a mark's time": (
        f"{LEDGERS}/underreplication/ledgers/0000/0000/0000/0001/urL0000000001",
        b'replica: "b:1"\nctime: 9223372036854775807\n',
    ),
    "a role": ("/admin/policies/t", b'{"adminRoles": ["\\ud800"]}'),
    "a tenant's name": (f"/admin/policies/{HALF}", b""),
    "bundles": ("/admin/policies/t/n", json.dumps({"bundles": {"numBundles": 1 << 40}}).encode()),
    "a policy": ("/admin/policies/t/n", b'{"any": "\\ud800"}'),
    "a broker's topics": ("/loadbalance/brokers/b:1", json.dumps({"numTopics": 1 << 31}).encode()),
    "a broker's time": ("/loadbalance/brokers/b:1", json.dumps({"lastUpdate": MOST}).encode()),
    "an owner": ("/namespace/t/n/0x00000000_0xffffffff", b'{"nativeUrl": "\\ud800"}'),
    "a rack": ("/bookies", b'{"default": {"b:1": {"rack": "\\ud800", "hostname": "b"}}}'),
}


@pytest.mark.parametrize("name", ODD)
def test_a_value_that_no_column_holds_makes_its_record_a_row_of_errors(name):
    path, data = ODD[name]
    ordinary = f"{TOPIC}-2"
    assembly = Assembly(dict.fromkeys(TABLES), TopicScope(), LEDGERS)
    for each, content in ((path, data), (ordinary, topic(LedgerInfo(1, 2, 3, 4)))):
        assembly.add(kind_of(each, LEDGERS), FoundNode(each, content, 0, 1, 1, 0))
    found = [(table, row) for table, batch in assembly.rest() for row in batch.to_pylist()]
    (error,) = [row for table, row in found if table == "errors"]
    assert error["path"] == path.replace(HALF, "\\ud800")
    assert error["error"]
    assert [row["managed_ledger"] for table, row in found if table != "errors"] == ["t/n/persistent/x-2"] * 2


def test_a_time_in_no_calendar_is_a_number_in_the_record_of_a_change():
    after = cursor(last_active=1 << 50)
    change = ZnodeChange(1, 0, 1, 1, "create", f"{TOPIC}/c", None, True, after, 0)
    (row,) = changes_of([(f"{TOPIC}/c", change)], TopicScope(), LEDGERS)
    assert json.loads(row.after)["last_active"] == 1 << 50
