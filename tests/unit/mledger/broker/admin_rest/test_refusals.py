"""Errors have Pulsar's statuses."""

import pytest

from mledger.broker.admin_rest.refusals import not_built, plan_status, refusal_body
from mledger.broker.refusals import BrokerRefusal
from mledger.errors import CursorNotFound, InvalidPosition, ManagedLedgerClosed, TopicExists, TopicNotFound
from mledger.metastore.errors import InvalidName, MetadataError, StoreUnavailable
from mledger.pb import PulsarApi_pb2 as pb


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TopicNotFound("x"), 404),
        (CursorNotFound("x"), 404),
        (TopicExists("x"), 409),
        (InvalidName("x"), 412),
        (InvalidPosition("x"), 412),
        (StoreUnavailable("x"), 503),
        (ManagedLedgerClosed("as a topic that is unloaded meanwhile"), 503),
        (MetadataError("x"), 500),
        (not_built("x"), 501),
        (BrokerRefusal(pb.ServiceNotReady, "x"), 503),
        (BrokerRefusal(pb.ConsumerBusy, "x"), 412),
        (BrokerRefusal(pb.UnknownError, "x"), 500),
    ],
)
def test_an_error_has_pulsars_status(error, status):
    assert plan_status(error) == status


def test_a_refusal_is_pulsars_json():
    assert refusal_body('no "x"') == b'{"reason":"no \\"x\\""}'
