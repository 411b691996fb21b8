"""What a bookie's error answer to an add means for the ledger."""

import pytest

from mledger.bookie.client.plans.refusals import plan_refusal
from mledger.bookie.errors import Code, LedgerFenced, NoSuchLedger, Unauthorized


@pytest.mark.parametrize(
    ("code", "ends_with"),
    [(Code.FENCED, LedgerFenced), (Code.UNAUTHORIZED, Unauthorized), (Code.NO_LEDGER, NoSuchLedger)],
)
def test_a_refusal_that_concerns_the_ledger_ends_its_writing(code, ends_with):
    failure = plan_refusal(7, 3, "10.0.0.1:3181", code)
    assert type(failure) is ends_with
    assert "ledger 7, entry 3, bookie 10.0.0.1:3181" in str(failure)


@pytest.mark.parametrize("code", [*(set(Code) - {Code.OK, Code.FENCED, Code.UNAUTHORIZED, Code.NO_LEDGER}), 4711])
def test_any_other_error_concerns_the_bookie(code):
    assert plan_refusal(7, 3, "10.0.0.1:3181", code) is None
