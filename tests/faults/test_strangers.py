"""Strangers at a broker with TLS, tokens and roles, for a while: `make soak SOAK_ARGS=strangers` is the long form."""

from tests.faults.soak.strangers import run_strangers

INPUTS = 3_000


def test_strangers_get_nothing_and_the_broker_serves_on(tmp_path):
    found = run_strangers(tmp_path, inputs=INPUTS, seed=5)
    assert found.bad == []
    assert found.sent.total() == INPUTS
    assert {"HTTP 401", "HTTP 403", "error NotAllowedError"} <= found.answers.keys()
