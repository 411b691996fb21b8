"""Quarantine: bookies to avoid for a while because they failed, and for longer because they did not answer.

A bookie that failed is used last where there is a choice. A bookie that was silent for a whole time-out is not tried as
a replacement at all. Each time that it is silent again, without any answer in between, its quarantine doubles, up to
half an hour. Any answer ends it.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

_FAILURES_TOLD_S = 1.0  # at most one log line per bookie in this time
_LONGEST_S = 1800.0
_ASK_AGAIN_S = 15.0  # for this long, requests to a silent bookie fail at once


class _Record(Struct):
    """A bookie's last failure; it is avoided for `span_s`."""

    at: float
    span_s: float
    silent: bool = False


class Quarantine:
    """What a client remembers of bookies that failed; times in seconds of the event loop's clock."""

    def __init__(self, span_s: float, clock: Callable[[], float], heard_at: Callable[[str], float]) -> None:
        """`heard_at` returns when a bookie last sent anything; with `span_s` 0 only silence counts."""
        self._span_s, self._clock, self._heard_at = span_s, clock, heard_at
        self._records: dict[str, _Record] = {}

    def note_failure(self, bookie_id: str, reason: str) -> None:
        """Prefer other bookies for a while."""
        now, last = self._clock(), self._records.get(bookie_id)
        if last is None or now - last.at > _FAILURES_TOLD_S:
            log.warning("bookie_failed", bookie=bookie_id, reason=reason)
        if last is not None and self._still_silent(bookie_id, last, now):
            return  # nothing has changed
        self._records[bookie_id] = _Record(now, self._span_s)

    def note_silence(self, bookie_id: str, reason: str, waited_s: float) -> None:
        """Note that it left requests unanswered for `waited_s`, and avoid it for longer than that."""
        now, last = self._clock(), self._records.get(bookie_id)
        if last is None or now - last.at > _FAILURES_TOLD_S:
            log.warning("bookie_silent", bookie=bookie_id, reason=reason)
        span = max(self._span_s, 2 * waited_s)
        if last is not None and last.silent and self._heard_at(bookie_id) <= last.at:
            span = max(span, 2 * last.span_s if now - last.at >= waited_s else last.span_s)
        self._records[bookie_id] = _Record(now, min(span, _LONGEST_S), silent=True)

    def failed(self) -> set[str]:
        """Bookies whose quarantine after a failure has not ended."""
        now = self._clock()
        return {
            bookie
            for bookie, record in self._records.items()
            if now - record.at <= record.span_s and (not record.silent or self._still_silent(bookie, record, now))
        }

    def refuses(self, bookie_id: str) -> bool:
        """Whether the bookie was silent so recently that it is not asked again yet."""
        record = self._records.get(bookie_id)
        if record is None or not record.silent:
            return False
        now = self._clock()
        return now - record.at < _ASK_AGAIN_S and self._still_silent(bookie_id, record, now)

    def why(self, bookie_id: str) -> str:
        """Why it is not asked, for an error message."""
        ago = self._clock() - self._records[bookie_id].at
        return (
            f"bookie {bookie_id}: it did not answer {ago:.0f} s ago and has not been heard since; see whether it runs"
        )

    def silent(self) -> set[str]:
        """Bookies that are in quarantine for silence and have not been heard since."""
        now = self._clock()
        return {bookie for bookie, record in self._records.items() if self._still_silent(bookie, record, now)}

    def healthy_first(self, bookie_ids: Sequence[str]) -> list[str]:
        """The bookies in order, but those in quarantine after the others, and silent ones last."""
        if not self._records:
            return list(bookie_ids)
        failed, silent = self.failed(), self.silent()
        return sorted(bookie_ids, key=lambda bookie: (bookie in failed) + (bookie in silent))

    def _still_silent(self, bookie_id: str, record: _Record, now: float) -> bool:
        return record.silent and now - record.at <= record.span_s and self._heard_at(bookie_id) <= record.at
