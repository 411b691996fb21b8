"""Transactions, which this broker does not have: every command of theirs is refused in its own form."""

from typing import Any

from mledger.broker.connections.connection import BrokerConnection, Handler
from mledger.broker.protocol import answers
from mledger.broker.refusals import NO_TRANSACTIONS
from mledger.pb import PulsarApi_pb2 as pb


def refuse_transaction(kind: "pb.BaseCommand.Type.ValueType") -> Handler:
    """What refuses commands of that type."""

    def refuse(connection: BrokerConnection, command: Any) -> None:
        connection.write(answers.transaction_refused(kind, command.request_id, pb.NotAllowedError, NO_TRANSACTIONS))

    return refuse
