"""Refusals of commands that no handler serves."""

import pytest

from mledger.broker.protocol.commands import Command
from mledger.broker.protocol.errors import ProtocolError
from mledger.broker.refusals import refusal_of_unknown
from mledger.pb import PulsarApi_pb2 as pb


def test_a_request_that_is_not_served_is_refused_by_its_id():
    command = Command(pb.BaseCommand.END_TXN, pb.CommandEndTxn(request_id=7))
    request_id, refusal = refusal_of_unknown(command)
    assert (request_id, refusal.code) == (7, pb.NotAllowedError)
    assert str(refusal) == "this broker does not serve END_TXN"


def test_a_command_that_only_brokers_send_breaks_the_protocol():
    with pytest.raises(ProtocolError, match="SEND_RECEIPT is no command of clients"):
        refusal_of_unknown(Command(pb.BaseCommand.SEND_RECEIPT, pb.CommandSendReceipt()))
