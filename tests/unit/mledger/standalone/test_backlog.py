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


def found(topic, partitions=0):
    return figures_of(METRICS, TopicName.parse(topic), "s", partitions)


def test_a_topic_has_its_own_backlog():
    assert found("persistent://t/n/a") == BacklogFigures(3, 0.25)


def test_partitions_count_together():
    assert found("persistent://t/n/p") == BacklogFigures(5, 0.25)


def test_a_topic_that_is_not_open_has_none():
    assert found("persistent://t/n/c") == BacklogFigures(None, 0.25)
    assert found("persistent://t/x/c") == BacklogFigures(None, 0.0)


def test_partitions_have_no_backlog_together_before_all_are_open():
    assert found("persistent://t/n/p", partitions=2) == BacklogFigures(5, 0.25)
    assert found("persistent://t/n/p", partitions=3) == BacklogFigures(None, 0.25)


def test_names_with_characters_that_the_format_escapes_are_found():
    label = r'cluster="c",namespace="t/n",subscription="a\"b\\c\nd",topic="persistent://t/n/q\"\\"'
    metrics = f"pulsar_subscription_back_log{{{label}}} 6.0\n"
    assert figures_of(metrics, TopicName.parse('persistent://t/n/q"\\'), 'a"b\\c\nd') == BacklogFigures(6, 0.0)
