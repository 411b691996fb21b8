"""The figures of a subscription in a broker's metrics."""

from mledger.metastore.records.paths import TopicName
from mledger.standalone.backlog import BacklogFigures, figures_of

METRICS = """# HELP pulsar_subscription_back_log Entries not acknowledged
pulsar_subscription_back_log{cluster="c",namespace="t/n",subscription="s",topic="persistent://t/n/a"} 3.0
pulsar_subscription_back_log{cluster="c",namespace="t/n",subscription="other",topic="persistent://t/n/a"} 5.0
pulsar_subscription_back_log{cluster="c",namespace="t/n",subscription="s",topic="persistent://t/n/ab"} 7.0
pulsar_subscription_back_log{cluster="c",namespace="t/n",subscription="s",topic="persistent://t/n/p-partition-0"} 1.0
pulsar_subscription_back_log{cluster="c",namespace="t/n",subscription="s",topic="persistent://t/n/p-partition-1"} 4.0
mledger_cursor_oldest_unpersisted_seconds{cluster="c",namespace="t/n"} 0.25
mledger_cursor_oldest_unpersisted_seconds{cluster="c",namespace="t/m"} 9.0
"""


def found(topic):
    return figures_of(METRICS, TopicName.parse(topic), "s")


def test_a_topic_has_its_own_backlog():
    assert found("persistent://t/n/a") == BacklogFigures(3, 0.25)


def test_partitions_count_together():
    assert found("persistent://t/n/p") == BacklogFigures(5, 0.25)


def test_a_topic_that_is_not_open_has_none():
    assert found("persistent://t/n/c") == BacklogFigures(None, 0.25)
    assert found("persistent://t/x/c") == BacklogFigures(None, 0.0)
