"""When the next round begins, and what kind an error is."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.exporter.rounds import RETRY_FIRST_S, RETRY_LAST_S, kind_of, plan_pause
from mledger.metastore.errors import MetadataAccessDenied, SessionExpired


def test_rounds_begin_at_the_interval_and_at_once_after_a_longer_round():
    assert plan_pause(60, 20, 0) == 40
    assert plan_pause(60, 80, 0) == 0


@given(st.floats(0.01, 1000), st.floats(0, 1000), st.integers(1, 10_000))
def test_a_failed_round_is_tried_again_soon_and_then_less_often(interval, took, failed):
    pause = plan_pause(interval, took, failed)
    assert min(interval, RETRY_FIRST_S) <= pause <= min(interval, RETRY_LAST_S)
    assert pause <= plan_pause(interval, took, failed + 1)


def test_an_error_s_kind_is_its_class():
    assert kind_of(SessionExpired("")) == "session_expired"
    assert kind_of(MetadataAccessDenied("")) == "metadata_access_denied"
