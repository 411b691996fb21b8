"""Topics are searched, sorted by backlog, and shown in pages."""

from mledger.broker.console.topic_table import PAGE, TopicRow, plan_topic_table
from mledger.metastore.records.paths import TopicName


def row(name, backlog=None):
    return TopicRow(TopicName("public", "default", name), backlog)


def names(table):
    return [each.topic.local_name for each in table.rows]


def test_the_largest_backlog_comes_first_and_unknown_ones_last():
    table = plan_topic_table([row("a"), row("b", 0), row("d", 7), row("c", 7)])
    assert names(table) == ["c", "d", "b", "a"]
    assert names(plan_topic_table([row("b", 9), row("a")], order="name")) == ["a", "b"]
    assert plan_topic_table([], order="nonsense").order == "backlog"


def test_ten_thousand_topics_are_shown_in_pages():
    rows = [row(f"t{number:05}", number) for number in range(10_000)]
    table = plan_topic_table(rows, page=2)
    assert (table.page, table.pages, table.found, len(table.rows)) == (2, 10_000 // PAGE, 10_000, PAGE)
    assert names(table)[0] == f"t{9_999 - PAGE:05}"
    assert plan_topic_table(rows, page=10**9).page == table.pages
    found = plan_topic_table(rows, search=" T0000 ")
    assert (found.found, found.total, found.pages) == (10, 10_000, 1)
