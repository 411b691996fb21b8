"""What is kept of topics between rounds: until a change, for a time, in bounded memory, and never what a change met."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.exporter.kept_topics import LONGEST_S, KeptTopics, plan_due
from mledger.exporter.topic_figures import ConsumedLedger, RecordedCursor, TopicFigures
from mledger.exporter.topic_summary import CursorSummary, TopicSummary
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.memory.store import MemoryReader
from tests.support.aio import run

PATH = "/managed-ledgers/a/b/persistent/t"
CURSOR = CursorSummary("one", 20, RecordedCursor("znode", 5, 1000, 2))
TOPIC = TopicSummary(
    "a/b", 300, TopicFigures(2, 10, 100), (1, 2, 7), (CURSOR,), (9,), 1, (ConsumedLedger(1000, 40, 60),)
)


class TellingReader(MemoryReader):
    """A session that tells of changes, if `tells`, and may be lost while the watch is set."""

    def __init__(self, tells=True, lost_at_once=False, error=None):
        super().__init__("")
        self.tells, self.lost_at_once, self.error, self.watched = tells, lost_at_once, error, 0

    async def watch_tree(self, path, changed, lost):
        self.watched += 1
        self.changed, self.lost = changed, lost
        if self.error:
            raise self.error
        if self.lost_at_once:
            lost()
        return self.tells


def begun(reader, kept=None, now_s=0):
    """The topics kept for a round that reads from `reader`."""
    kept = kept or KeptTopics()
    run(kept.begin(reader, now_s))
    return kept


def keep(kept, path=PATH, topic=TOPIC, now_s=0):
    with kept.reading() as changed:
        kept.keep(path, topic, changed, now_s)


def test_a_topic_is_kept_over_rounds_of_one_session():
    reader = TellingReader()
    kept = begun(reader)
    keep(kept)
    assert kept.get(PATH) == TOPIC
    assert begun(reader, kept).get(PATH) == TOPIC
    assert reader.watched == 1
    assert kept.get(PATH + "2") is None


@pytest.mark.parametrize("node", [PATH, f"{PATH}/cursor"])
def test_a_change_of_a_topic_or_of_a_cursor_drops_it(node):
    reader = TellingReader()
    kept = begun(reader)
    keep(kept)
    keep(kept, PATH + "2")
    reader.changed(node)
    assert kept.get(PATH) is None
    assert kept.get(PATH + "2") == TOPIC


@pytest.mark.parametrize("node", [PATH, f"{PATH}/cursor"])
def test_what_changes_while_it_is_read_is_not_kept(node):
    reader = TellingReader()
    kept = begun(reader)
    with kept.reading() as changed, kept.reading() as other:
        reader.changed(node)
        kept.keep(PATH, TOPIC, changed, 0)
        assert kept.get(PATH) is None
        kept.keep(PATH, TOPIC, other, 0)
        assert kept.get(PATH) is None
    keep(kept)
    assert kept.get(PATH) == TOPIC


@pytest.mark.parametrize("reader", [TellingReader(tells=False), TellingReader(lost_at_once=True)])
def test_nothing_is_kept_without_being_told(reader):
    kept = begun(reader)
    keep(kept)
    assert kept.get(PATH) is None
    assert begun(reader, kept).get(PATH) is None
    assert reader.watched == 2


def test_nothing_is_kept_if_the_watch_could_not_be_set():
    kept = KeptTopics()
    with pytest.raises(StoreUnavailable):
        begun(TellingReader(error=StoreUnavailable("away")), kept)
    keep(kept)
    assert kept.get(PATH) is None


def test_a_lost_connection_or_another_session_forgets_everything():
    reader, next_reader = TellingReader(), TellingReader()
    kept = begun(reader)
    keep(kept)
    reader.lost()
    assert kept.get(PATH) is None
    begun(reader, kept)
    assert kept.get(PATH) is None
    keep(kept)
    begun(next_reader, kept)
    assert kept.get(PATH) is None
    keep(kept)
    reader.lost()  # the session before
    assert kept.get(PATH) == TOPIC


def test_a_topic_is_read_again_after_a_time():
    reader = TellingReader()
    kept = begun(reader)
    keep(kept)
    due = plan_due(PATH, 0)
    assert begun(reader, kept, due - 1).get(PATH) == TOPIC
    assert begun(reader, kept, due).get(PATH) is None


@given(st.text(), st.integers(0, 1 << 31))
def test_no_topic_is_kept_longer_than_the_longest(name, now_s):
    assert now_s + LONGEST_S / 2 - 1 <= plan_due(name, now_s) <= now_s + LONGEST_S


def test_topics_are_not_all_read_again_at_once():
    assert len({plan_due(f"{PATH}{number}", 0) for number in range(1000)}) > 300


def test_kept_bytes_are_bounded_and_given_back():
    reader = TellingReader()
    kept = begun(reader, KeptTopics(3_000))
    paths = [f"{PATH}{number}" for number in range(20)]
    for path in paths:
        keep(kept, path)
        keep(kept, path)
    there = [path for path in paths if kept.get(path)]
    assert 3 < len(there) < 15
    for path in there:
        reader.changed(path)
    for path in reversed(paths):
        keep(kept, path)
    assert [path for path in paths if kept.get(path)] == paths[-len(there) :]
