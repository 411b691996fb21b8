"""Templates escape everything, and make visible what a person could not see."""

from mledger.broker.console.page_templates import PageTemplates, namespace_url, size_text, topic_url, visible
from mledger.metastore.records.paths import TopicName


def test_what_cannot_be_seen_is_made_visible():
    assert visible("plain \u96ea") == "plain \u96ea"
    assert visible("a\x00\x1b\u202eb\ud800\U000e0041\n") == "a\\x00\\x1b\\u202eb\\ud800\\U000e0041\n"
    assert visible(5) == 5


def test_an_error_is_escaped():
    page = PageTemplates().page(
        "error.html", code=404, why='<script>&"', cluster="<c>", role="", can_log_out=False, here="/console"
    )
    text = page.body.decode()
    assert "&lt;script&gt;&amp;&#34;" in text
    assert "<script>&" not in text
    assert "<c>" not in text
    assert page.headers["X-Content-Type-Options"] == "nosniff"


def test_addresses_hold_any_name():
    assert topic_url(TopicName("a", "b", "c d/e?f#g%")) == "/console/topics/persistent/a/b/c%20d%2Fe%3Ff%23g%25"
    assert topic_url(TopicName("a", "b", "c"), "subscriptions", "x/y", n=1).endswith("/c/subscriptions/x%2Fy?n=1")
    assert namespace_url("a/b", q="c d&") == "/console/namespaces/a/b?q=c+d%26"


def test_sizes_are_for_people():
    assert [size_text(each) for each in (None, 0, 1023, 1024, 5 << 20)] == [
        "\u2013",
        "0 B",
        "1023 B",
        "1.0 KiB",
        "5.0 MiB",
    ]
