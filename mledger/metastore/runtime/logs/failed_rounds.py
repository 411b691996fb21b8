"""Failures of what a background loop does: they are handed on, and the loop goes on with its next round."""

import asyncio
from collections.abc import Callable

from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.logs.loggers import EventLogger

Failed = Callable[[BaseException], object]


class OutlivedRound:
    """A context for one round of a loop: if the round fails, `failed` is told why, and the loop goes on.

    A cancellation that is not the loop's own, of something that the round waited for, is such a failure too.
    """

    def __init__(self, failed: Failed) -> None:
        self._failed = failed

    def __enter__(self) -> None:
        """Begin the round."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        """Whether the loop goes on after an error."""
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is None or task.cancelling():
                return False
        elif not isinstance(error, Exception):
            return False
        self._failed(error)
        return True


def log_failure(log: EventLogger, event: str, error: BaseException, **fields: object) -> None:
    """Log `error`, with its traceback if it is not mledger's own; call it while the error is being handled."""
    tell = log.warning if isinstance(error, MledgerError) else log.exception
    tell(event, **fields, error=error)
