"""The state of a session, and the error once it has ended."""

import pytest

from mledger.metastore.errors import SessionExpired, StoreClosed
from mledger.metastore.session import Session
from mledger.metastore.store import SessionState


@pytest.mark.parametrize(
    ("state", "error"), [(SessionState.EXPIRED, SessionExpired), (SessionState.CLOSED, StoreClosed)]
)
def test_a_session_that_has_ended_stays_ended(state, error):
    session = Session("zk://host:1", SessionState.CONNECTED)
    seen = []
    session.listen(seen.append)
    session.check()
    for new in (SessionState.SUSPENDED, SessionState.CONNECTED, state, SessionState.CONNECTED, SessionState.EXPIRED):
        session.change(new)
    assert seen == [SessionState.SUSPENDED, SessionState.CONNECTED, state]
    with pytest.raises(error, match="zk://host:1"):
        session.check()
