"""When a client is asked for new credentials, and when its connection ends."""

import pytest

from mledger.broker.connections.credential_renewal import Renewal, plan_renewal_step


@pytest.mark.parametrize(
    ("expires_s", "asked", "renews", "step"),
    [
        (None, False, True, Renewal.NONE),
        (None, False, False, Renewal.NONE),
        (101.0, False, True, Renewal.NONE),
        (101.0, False, False, Renewal.NONE),
        (100.0, False, True, Renewal.ASK),
        (100.0, True, True, Renewal.CLOSE),
        (100.0, False, False, Renewal.CLOSE),
        (99.0, False, True, Renewal.ASK),
        (99.0, True, True, Renewal.CLOSE),
        (99.0, False, False, Renewal.CLOSE),
    ],
)
def test_a_client_is_asked_once(expires_s, asked, renews, step):
    assert plan_renewal_step(expires_s, 100.0, asked=asked, renews=renews) is step
