"""Ends sessions of a metadata server before their time, as if their clients had been silent for too long."""

from pytest_mledger.metadata_exchange import exchange


def expire_sessions(directory: str) -> None:
    """End every session that the server of `directory` has by now, and wait until their ephemeral nodes are gone."""
    last = _end_session(directory, 0)
    for session_id in range(1, last):
        _end_session(directory, session_id)


def _end_session(directory: str, session_id: int) -> int:
    """Take a session over and leave it; 0 begins a new one. Returns its id; 0 if it had ended before."""
    return max((answer.welcome.session_id for answer in exchange(directory, session_id=session_id)), default=0)
