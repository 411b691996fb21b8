"""Nodes as `mledger metadata get` shows them, on nodes that Java left."""

import json

import pytest

from mledger.cli.shared.output.node_text import decode_node
from mledger.metastore.errors import RecordError
from tests.support.recordings import golden


def shown(file, path):
    node = next(node for node in golden.nodes(file) if node.path.endswith(path))
    content = decode_node(node.path, node.data)
    return content.kind, json.loads(json.dumps(content.value))


def test_a_topic():
    kind, value = shown("znodes/cursor-holes-0.json", "/persistent/topic-0")
    assert kind == "managed ledger"
    assert [ledger["ledger_id"] for ledger in value["ledgers"]] == [106, 107, 108, 109]
    assert set(value["ledgers"][0]) == {"ledger_id", "entries", "size", "timestamp", "offload", "properties", "unknown"}


def test_a_cursor():
    kind, value = shown("znodes/cursor-holes-0.json", "/persistent/topic-0/sub")
    assert kind == "cursor"
    assert (value["cursors_ledger_id"], value["mark_delete"]) == (110, "106:-1")


def test_a_ledger():
    kind, value = shown("znodes/cursor-holes-0.json", "/L0106")
    assert kind == "ledger"
    assert (value["state"], value["last_entry"], value["digest_type"]) == ("CLOSED", 4, "CRC32C")
    assert [set(segment) for segment in value["segments"]] == [{"first_entry", "bookies"}]


def test_a_bookie():
    kind, value = shown("znodes/bk-registrations.json", "/available/named-bookie.example-3")
    assert kind == "bookie"
    place = {"bookie_id": "named-bookie.example-3", "host": "127.0.0.1", "port": 33483, "read_only": False}
    assert value == place | {"http": "", "version": ""}


def test_a_read_only_bookie():
    kind, value = shown("wire/zk-readonly-bookie.json", "/readonly/bookie-0")
    assert kind == "bookie"
    assert value["read_only"]


def test_a_cookie_is_text():
    kind, value = shown("znodes/bk-registrations.json", "/cookies/127.0.0.1:33481")
    assert kind == "text"
    assert "bookieHost" in value


def test_a_node_without_data():
    assert shown("znodes/bk-registrations.json", "/available") == ("empty", None)


def test_a_damaged_record_is_refused():
    with pytest.raises(RecordError, match="/managed-ledgers/t/n/persistent/x"):
        decode_node("/managed-ledgers/t/n/persistent/x", b"\x0a\x09\x08")
