"""Why a bookie of the soak did not start."""

from tests.faults.soak.world import was_refused_session


def test_a_bookie_that_got_no_session_is_told_from_one_that_refuses_its_files():
    begin = "level=info event=starting\n"
    away = begin + 'level=error event=failed error="no ZooKeeper answers at 127.0.0.1:1 within 3 s"\n'
    assert was_refused_session(away)
    assert was_refused_session(away + 'level=warning message="Connection dropped"\n')
    assert not was_refused_session(away + 5 * begin + 'level=error event=failed error="journal: record 7 is bad"\n')
    assert not was_refused_session(begin)
