"""Of warnings that a client can cause by the hundred thousand there is a line now and then, with their number."""

from mledger.broker.topics.subscriptions import ack_warnings
from mledger.broker.topics.subscriptions.ack_warnings import EVERY_MS, AckWarnings


def test_a_line_for_the_first_and_then_one_for_many(monkeypatch, caplog):
    now = 0
    monkeypatch.setattr(ack_warnings, "steady_ms", lambda: now)
    warnings = AckWarnings("t", "sub")
    for _ in range(1000):
        warnings.warn("ignored")
    warnings.warn("refused", error="why")
    assert [record.getMessage() for record in caplog.records] == [
        "event=ignored topic=t subscription=sub times=1",
        "event=refused topic=t subscription=sub error=why times=1",
    ]
    now = EVERY_MS
    warnings.warn("ignored")
    assert caplog.records[-1].getMessage() == "event=ignored topic=t subscription=sub times=1000"
    assert len(caplog.records) == 3
