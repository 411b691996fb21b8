"""What hostile input has found, each once."""

import pytest

from mledger.admin.undo.undo_file import UndoFileError, decode_undo_file
from mledger.bookie import wire
from mledger.bookie.errors import InvalidBookieDirectory
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb
from mledger.bookie.server.serving.version3_messages import open_request
from mledger.bookie.server.storage.directories.directory import decode_format, encode_format, new_format
from mledger.bookie.server.storage.rows.runs import parse_run
from mledger.cursors.entry_time import publish_time
from mledger.cursors.recovery import plan_cursor_recovery
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.cluster.bookies import decode_registration
from mledger.metastore.cluster.cookies import decode_cookie
from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo

MORE_DIGITS_THAN_PYTHON_TAKES = "9" * 5_000


@pytest.mark.parametrize("request_bytes", [b"", pb.Request(header=pb.BKPacketHeader()).SerializePartialToString()])
def test_a_version_3_request_without_its_header_is_refused(request_bytes):
    with pytest.raises(wire.MalformedFrame, match="lacks a required field"):
        open_request(request_bytes)


def test_a_payload_that_is_one_endless_number_has_no_publish_time():
    payload = b"\0\0\xff\xff" + b"\xff" * (5 << 20)
    with pytest.raises(RecordError, match="no publish time"):
        publish_time(payload[:4] + payload[4:][:0xFFFF])
    with pytest.raises(RecordError, match="no publish time"):
        publish_time((len(payload) - 4).to_bytes(4, "big") + payload[4:])


def test_a_mark_delete_below_every_entry_is_moved_to_the_start_of_its_ledger():
    ledgers = LedgerList((LedgerInfo(3, 10, 100, 1), LedgerInfo(4)), current=4)
    plan = plan_cursor_recovery("sub", None, None, ledgers, start=Position(3, -255))
    assert (plan.mark_delete, plan.backlog) == (Position(3, -1), 10)
    assert "below every entry" in plan.warnings[0]


@pytest.mark.parametrize("value", [b"", b"\0\0\0", b"\0\0\0\x04abcd", bytes(60)])
def test_bytes_that_are_no_run_of_adds_are_refused(value):
    with pytest.raises(wire.MalformedFrame):
        parse_run(value)


def test_an_undo_file_with_data_that_is_not_ascii_is_refused():
    text = (
        '{"format":1,"command":"c","subject":"s","made_at":"2026-01-31T12:00:00.000Z","cluster":"u","outcome":"begun",'
        '"managed_ledgers":[],"topics":[],"records":[{"path":"/a","before":{"data":"é","version":1},"after":null}],"cursors":[],'
        '"lost":[]}'
    )
    with pytest.raises(UndoFileError, match="not base64"):
        decode_undo_file(text.encode())


def test_numbers_of_thousands_of_digits_are_refused():
    with pytest.raises(RecordError, match="layout version"):
        decode_cookie(f"{MORE_DIGITS_THAN_PYTHON_TAKES}\n".encode())
    with pytest.raises(RecordError, match="host:port"):
        decode_registration(f"host:{MORE_DIGITS_THAN_PYTHON_TAKES}", b"")
    written = encode_format(new_format("host:1", "instance"))
    damaged = written.replace("version ", f"version {MORE_DIGITS_THAN_PYTHON_TAKES}", 1)
    with pytest.raises(InvalidBookieDirectory):
        decode_format(damaged, "FORMAT")
    assert TopicName.parse(f"t/n/x-partition-{MORE_DIGITS_THAN_PYTHON_TAKES}").partition_index is None
