"""Topics inspected by blocking calls, in a script and where an event loop runs."""

import pytest

import mledger
from mledger.errors import TopicNotFound
from tests.support.aio import run
from tests.support.topics import KEEP, fill


@pytest.fixture
def written(topic_url, topic):
    """A topic with five entries, of which two are acknowledged."""

    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("one")
            positions = await fill(opened, 5)
            await cursor.acknowledge_cumulative(positions[1])
            return positions

    return run(main())


def looked(url, topic):
    with mledger.open_inspector(url) as inspector:
        (cursor,) = inspector.cursors(topic)
        entries = [each.position for each in inspector.read(topic)]
        names = [str(each) for each in inspector.topics("tests/ns")]
        return inspector.topic(topic).entries, cursor.name, entries, topic in names


def test_a_script_sees_topics_cursors_and_entries(topic_url, topic, written):
    assert looked(topic_url, topic) == (5, "one", written, True)


def test_a_notebook_whose_loop_runs_sees_the_same(topic_url, topic, written):
    async def cell():
        return looked(topic_url, topic)

    assert run(cell()) == (5, "one", written, True)


def test_reading_may_end_early(topic_url, topic, written):
    with mledger.open_inspector(topic_url) as inspector:
        entries = inspector.read(topic)
        assert next(entries).position == written[0]
        entries.close()


def test_an_unknown_topic_is_an_error(topic_url):
    with mledger.open_inspector(topic_url) as inspector, pytest.raises(TopicNotFound):
        inspector.topic("persistent://public/default/none-such")
