"""A seal is its user's, of this process, and for once."""

from mledger.broker.console.plan_seal import VALID_MS, PlanSeal

CONTENT = {"path": "/x", "values": {"count": "2"}}


def test_a_seal_gives_its_content_back_once():
    seals = PlanSeal()
    sealed = seals.seal(CONTENT, "me", 1000)
    assert seals.unseal(sealed, "me", 2000) == CONTENT
    assert seals.unseal(sealed, "me", 2000) is None


def test_a_seal_of_another_user_process_or_time_counts_nothing():
    seals = PlanSeal()
    sealed = seals.seal(CONTENT, "me", 1000)
    assert seals.unseal(sealed, "you", 1000) is None
    assert PlanSeal().unseal(sealed, "me", 1000) is None
    assert seals.unseal(sealed, "me", 1001 + VALID_MS) is None
    assert seals.unseal(sealed, "me", 999) is None
    assert seals.unseal(sealed, "me", 1000 + VALID_MS) == CONTENT


def test_what_is_no_seal_counts_nothing():
    seals = PlanSeal()
    sealed = seals.seal(CONTENT, "me", 0)
    for text in ("", "x", "ä", "A" * 100, sealed[:-4] + "AAAA", sealed[4:]):
        assert seals.unseal(text, "me", 0) is None
