"""`mledger report` in a real Chromium: its content, its console, sorting, the filter, dark mode, a phone, paper."""

import pytest

from tests.support.browser import as_phone, browser, console, in_scheme, until
from tests.support.cli import answer, mledger
from tests.support.snapshots.exports import write_snapshot
from tests.support.snapshots.snapshot_pairs import HOUR, IDLE, NOW, TOPIC, cursor, listed, topic, write_both

__all__ = ["browser"]
pytestmark = pytest.mark.browser

KEPT = "persistent://t/n/kept"
ODD = "persistent://T/#%?/odd"
HOSTILE = "persistent://t/n/<script>console.error('run')</script>&\"'$x$" + "-long" * 40

COLOURS = """
    const numbers = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
    const light = (text) => numbers(text).map((c) => c / 255)
        .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const paper = light(getComputedStyle(document.body).backgroundColor);
    const ratio = (colour) => {
        const [a, b] = [light(colour), paper].sort((x, y) => y - x);
        return (a + 0.05) / (b + 0.05);
    };
    const text = ["body", "h2", ".doc", "dt", "td", "th button", "nav a", ".legend span", ".legend b", ".filter input"]
        .map((each) => getComputedStyle(document.querySelector(each)).color);
    text.push(getComputedStyle(document.querySelector(".filter input"), "::placeholder").color);
    const drawn = [...document.querySelectorAll("svg text")].map((each) => getComputedStyle(each).fill);
    const lines = [...document.querySelectorAll(".key line")].map((each) => getComputedStyle(each).stroke);
    return {paper, ratios: [...text, ...drawn, ...lines].map(ratio)};
"""


SMALLEST = """
    const heights = [...document.querySelectorAll("svg text")].map((each) => each.getScreenCTM().a
        * parseFloat(getComputedStyle(each).fontSize));
    return Math.min(...heights);
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The address of a report on two snapshots whose numbers are known."""
    directory = tmp_path_factory.mktemp("reported")
    write_both(directory / "kept")
    done = answer("report", directory / "kept", "--to", directory / "report.html")
    assert (done["snapshot"], done["pages"]) == ("now", 1)
    return (directory / "report.html").as_uri()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The directory of a report in pages; the newest snapshot has a second namespace with an odd name."""
    directory = tmp_path_factory.mktemp("pages")
    write_both(directory / "kept")
    other = topic(ODD, 70, 70, 4, 40, cursors=1, ledgers=1, created=NOW) | {"tenant": "T", "namespace": "T/#%?"}
    write_snapshot(
        directory / "kept",
        "later",
        NOW + HOUR,
        topics=[topic(TOPIC, 1, 4, 35, 5500, cursors=4, ledgers=4, created=NOW), other],
        topic_ledgers=[listed(TOPIC, 1, 10, 1000, NOW), listed(ODD, 70, 4, 40, NOW)],
        cursors=[cursor(TOPIC, "slow", 1, 3), cursor(ODD, "s", 70, 0)],
    )
    done = answer("report", directory / "kept", "--to", directory / "site")
    assert (done["snapshot"], done["pages"]) == ("later", 3)
    return directory / "site"


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory):
    """The address of a report with names that contain scripts, and very long names."""
    directory = tmp_path_factory.mktemp("hostile")
    now = write_snapshot(
        directory,
        "now",
        NOW,
        topics=[topic(HOSTILE, 1, 2, 10, 100, cursors=1, ledgers=2, created=NOW)],
        topic_ledgers=[listed(HOSTILE, 1, 10, 100, NOW)],
        cursors=[cursor(HOSTILE, "s\u96ea", 1, 3)],
    )
    answer("report", now, "--to", directory / "report.html")
    return (directory / "report.html").as_uri()


def cells(browser, section, column):
    rows = browser.find_elements("css selector", f"#{section} tbody tr:not([hidden])")
    return [row.find_elements("tag name", "td")[column].text for row in rows]


def test_the_page_has_every_answer_and_writes_nothing_to_its_console(browser, page):
    browser.get(page)
    assert [heading.text for heading in browser.find_elements("tag name", "h2")] == [
        "Trends",
        "Distributions",
        "Backlogs that changed most",
        "Topics whose size changed most",
        "Largest",
        "Namespaces",
        "Backlog of each subscription",
        "Bytes on disk that only one subscription holds",
        "Bytes that trimming would free",
        "Storage of each tenant",
        "Storage of each namespace",
        "Ledgers that are perhaps orphans",
        "References to ledgers that perhaps do not exist",
        "Under-replicated ledgers",
        "Load of each bookie",
        "Cursors with the most holes",
        "Stuck cursors",
        "Topics without subscriptions",
        "Consumed ledgers, but none trimmed yet",
    ]
    first = [cell.text for cell in browser.find_elements("css selector", "#backlog tbody tr:first-child td")]
    assert first == [TOPIC, "slow", "19", "2.8 KiB", "10 h", "8 h", "4", "znode"]
    assert cells(browser, "orphan_ledgers", 0) == ["40", "44"]
    assert cells(browser, "stuck_cursors", 1) == ["slow"]
    assert console(browser) == []


def test_plots_are_drawn_with_their_labels_as_text(browser, page):
    browser.get(page)
    drawn = {
        figure.find_element("tag name", "figcaption").text: [
            text.get_attribute("textContent") for text in figure.find_elements("css selector", "svg text")
        ]
        for figure in browser.find_elements("css selector", "#largest figure")
    }
    assert list(drawn) == [
        "Largest backlogs, entries",
        "Held on disk by one subscription only",
        "Load of bookies, payload bytes",
        "Most ranges acknowledged above mark-delete",
    ]
    assert {"t/n/orders slow", "t/n/orders quick", "19", "3"} <= set(drawn["Largest backlogs, entries"])
    assert {"b1", "4.9 KiB"} <= set(drawn["Load of bookies, payload bytes"])
    ids = [each.get_attribute("id") for each in browser.find_elements("css selector", "[id]")]
    assert len(ids) == len(set(ids))


def test_a_click_on_a_heading_sorts_by_it_and_another_reverses_the_order(browser, page):
    browser.get(page)
    assert cells(browser, "bookie_load", 0) == ["b1", "gone", "b2", "away"]
    entries, name = (browser.find_elements("css selector", "#bookie_load th button")[at] for at in (5, 0))
    name.click()
    assert cells(browser, "bookie_load", 0) == ["away", "b1", "b2", "gone"]
    name.click()
    assert cells(browser, "bookie_load", 0) == ["gone", "b2", "b1", "away"]
    entries.click()
    assert cells(browser, "bookie_load", 5) == ["30", "10", "5", "0"]
    entries.click()
    assert cells(browser, "bookie_load", 5) == ["0", "5", "10", "30"]
    sorted_by = browser.find_elements("css selector", "#bookie_load th[aria-sort]")
    assert [(each.text.split()[0], each.get_attribute("aria-sort")) for each in sorted_by] == [("entries", "ascending")]
    assert console(browser) == []


def test_numbers_are_sorted_as_numbers_and_unknown_ones_come_last(browser, page):
    browser.get(page)
    waits = browser.find_elements("css selector", "#backlog th button")[4]
    waits.click()
    assert cells(browser, "backlog", 4) == ["10 h", "4 h", "-", "-", "-"]
    waits.click()
    assert cells(browser, "backlog", 4) == ["4 h", "10 h", "-", "-", "-"]


def test_trends_have_a_line_for_each_topic_and_a_legend_with_newest_values(browser, page):
    browser.get(page)
    shown = {
        level.find_element("tag name", "h3").text: {
            figure.find_element("tag name", "figcaption").text: figure.find_element("tag name", "ul").text.split("\n")
            for figure in level.find_elements("tag name", "figure")
        }
        for level in browser.find_elements("css selector", "#trends .named:has(h3)")
    }
    assert list(shown) == ["By tenant", "By namespace", "By topic"]
    assert shown["By namespace"] == {
        "Backlog, entries": ["t/n", "22"],
        "Payload bytes": ["t/n", "6.8 KiB"],
        "Ledgers": ["t/n", "8"],
        "Holes of cursors": ["t/n", "2"],
    }
    assert shown["By topic"]["Payload bytes"] == ["t/n/orders", "5.4 KiB", "t/n/kept", "800 B", "t/n/idle", "701 B"]
    lines = browser.find_elements("css selector", "figure:has(#plot-trend-topic-bytes) .drawn [data-name]")
    assert [each.get_attribute("data-name") for each in lines] == [TOPIC, KEPT, IDLE]


def test_a_single_snapshot_has_no_trends_and_no_changes(browser, hostile_page):
    browser.get(hostile_page)
    assert browser.find_elements("css selector", "#trends, #changes") == []


def test_what_changed_most_since_the_snapshot_before(browser, page):
    browser.get(page)
    assert cells(browser, "backlog_changes", 4) == ["\N{MINUS SIGN}11", "\N{MINUS SIGN}7"]
    assert cells(browser, "size_changes", 3) == ["+800 B", "+701 B", "+500 B"]


def filter_by(browser, text):
    browser.find_element("css selector", ".filter input").send_keys(text)


def visible(browser, selector):
    """The data-name of elements that are shown."""
    found = browser.find_elements("css selector", selector)
    return [each.get_attribute("data-name") for each in found if each.value_of_css_property("display") != "none"]


def test_the_filter_narrows_tables_lines_and_bars(browser, page):
    browser.get(page)
    filter_by(browser, "T/N/Kept")
    assert cells(browser, "backlog", 0) == [KEPT]
    assert cells(browser, "size_changes", 0) == [KEPT]
    assert cells(browser, "namespaces", 0) == ["t/n"]
    assert cells(browser, "bookie_load", 0) == ["b1", "gone", "b2", "away"]
    assert visible(browser, "figure:has(#plot-trend-topic-bytes) .drawn [data-name]") == [KEPT]
    assert visible(browser, "figure:has(#plot-trend-topic-bytes) .legend li") == [KEPT]
    assert visible(browser, "figure:has(#plot-trend-tenant-bytes) .legend li") == ["t"]
    assert not browser.find_element("id", "plot-backlog").is_displayed()
    assert browser.find_element("css selector", "#backlog .count").text == "5 in all, 1 match the filter"
    assert console(browser) == []


def test_an_empty_filter_shows_everything(browser, page):
    browser.get(page)
    filter_by(browser, "nothing")
    assert cells(browser, "backlog", 0) == []
    filter_by(browser, "\b" * len("nothing"))
    assert len(cells(browser, "backlog", 0)) == 5
    assert browser.find_element("css selector", "#backlog .count").text == "5 in all"


def test_without_script_everything_but_the_filter_is_shown(browser, page):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(page)
        assert not browser.find_element("css selector", ".filter").is_displayed()
        assert len(cells(browser, "backlog", 0)) == 5
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_each_namespace_has_a_page_that_the_first_one_links(browser, pages):
    assert sorted(each.name for each in (pages / "namespaces").iterdir()) == ["=54+=23=25=3f.html", "t+n.html"]
    browser.get((pages / "index.html").as_uri())
    browser.find_element("link text", "T/#%?").click()
    assert browser.find_element("tag name", "h1").text == "T/#%?"
    assert [cell.text for cell in browser.find_elements("css selector", "#namespace_subscriptions td")] == [
        *(ODD, "s", "3", "30 B", "0", "-", "znode")
    ]
    assert cells(browser, "namespace_topics", 0) == [ODD]
    assert [each.text for each in browser.find_elements("css selector", ".legend b")] == ["3", "40 B", "1"]
    browser.find_element("link text", "All namespaces").click()
    assert browser.find_element("tag name", "h1").text.startswith("Metadata of")
    assert console(browser) == []


def test_on_paper_it_is_black_on_white_and_nothing_is_cut_off(browser, page, hostile_page):
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": dark})
    as_phone(browser, width=720)
    try:
        for each in (hostile_page, page):
            browser.get(each)
            assert browser.execute_script("return getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
            assert browser.execute_script("return document.documentElement.scrollWidth") <= 720
            assert not browser.find_element("css selector", "nav").is_displayed()
        found = browser.execute_script(COLOURS)
        assert min(found["ratios"]) >= 4.5
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_plots_are_readable_in_light_and_dark_mode(browser, page, scheme):
    in_scheme(browser, scheme)
    browser.get(page)
    until(browser, lambda shown: shown.execute_script(f"return matchMedia('(prefers-color-scheme: {scheme})').matches"))
    found = browser.execute_script(COLOURS)
    in_scheme(browser, "light")
    assert (found["paper"] < 0.5) == (scheme == "dark")
    assert len(found["ratios"]) > 15
    assert min(found["ratios"]) >= 4.5


def test_a_phone_scrolls_down_only(browser, page, hostile_page):
    as_phone(browser)
    try:
        for each in (page, hostile_page):
            browser.get(each)
            until(browser, lambda shown: shown.execute_script("return innerWidth") == 390)
            assert browser.execute_script(SMALLEST) >= 9
            assert browser.execute_script("return document.documentElement.scrollWidth") == 390
            tables = browser.find_elements("css selector", ".scroll")
            assert any(each.get_property("scrollWidth") > each.get_property("clientWidth") for each in tables)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_names_are_shown_and_not_executed(browser, hostile_page):
    browser.get(hostile_page)
    assert cells(browser, "backlog", 0) == [HOSTILE]
    assert len(browser.find_elements("tag name", "script")) == 1
    assert console(browser) == []


def test_the_page_loads_nothing(browser, page):
    browser.get(page)
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_without_a_snapshot_there_is_no_page(tmp_path):
    done = mledger("report", tmp_path, "--to", tmp_path / "report.html")
    assert (done.code, list(tmp_path.iterdir())) == (3, [])
