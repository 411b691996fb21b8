"""Figures of topics and cursors add up by namespace."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.exporter.cluster_figures import ClusterFigures
from mledger.exporter.topic_figures import CursorFigures, TopicFigures, Untrimmed
from mledger.metastore.store import MAX_REQUEST_BYTES

numbers = st.integers(0, 1000)
found = st.lists(
    st.tuples(
        st.sampled_from(["a/b", "a/c"]),
        st.builds(CursorFigures, st.sampled_from(["znode", "snapshot"]), numbers, numbers, numbers),
    ),
    max_size=20,
)


@given(found, st.integers(0, 1000))
def test_a_namespace_has_the_sums_and_the_extremes_of_its_cursors(cursors, limit):
    figures = ClusterFigures(3, limit)
    for index, (namespace, cursor) in enumerate(cursors):
        figures.add_cursor(namespace, f"{namespace}/persistent/t{index}", "s", cursor)
    for namespace, sums in figures.namespaces.items():
        own = [cursor for name, cursor in cursors if name == namespace]
        for state, counted in sums.by_state.items():
            stated = [cursor for cursor in own if cursor.state == state]
            assert counted.cursors == len(stated)
            assert counted.backlog == sum(cursor.backlog for cursor in stated)
            assert counted.oldest_ms == max((cursor.age_ms for cursor in stated), default=0)
        assert sums.holes == sum(cursor.holes for cursor in own)
        assert sums.most_holes == max(cursor.holes for cursor in own)
        assert sums.near_range_limit == (sum(cursor.holes * 5 >= limit * 4 for cursor in own) if limit else 0)
    assert len(figures.backlogs.worst_first()) <= 3


def test_topics_and_untrimmed_ledgers_add_up():
    figures = ClusterFigures(0, 1000)
    figures.add_topic("a/b", TopicFigures(2, 10, 100))
    figures.add_topic("a/b", TopicFigures(1, 5, 50))
    figures.add_untrimmed("a/b", Untrimmed(1, 40))
    sums = figures.namespaces["a/b"]
    assert (sums.topics, sums.ledgers, sums.entries, sums.size) == (2, 3, 15, 150)
    assert (sums.untrimmed_ledgers, sums.untrimmed_size) == (1, 40)


def test_a_record_near_the_limit_of_a_store_is_counted():
    figures = ClusterFigures(0, 1000)
    figures.add_record("cursor", 100)
    figures.add_record("cursor", MAX_REQUEST_BYTES * 9 // 10)
    assert (figures.sizes["cursor"].largest, figures.sizes["cursor"].near_limit) == (MAX_REQUEST_BYTES * 9 // 10, 1)
    assert figures.sizes["topic"].largest == 0
