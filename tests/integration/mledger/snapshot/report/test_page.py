"""`mledger report` in a real Chromium: its content, its console, sorting, dark mode, a phone."""

import pytest

from tests.support.browser import as_phone, browser, console, in_scheme, until
from tests.support.cli import answer, mledger
from tests.support.snapshots.exports import write_snapshot
from tests.support.snapshots.snapshot_pairs import NOW, TOPIC, cursor, listed, topic, write_both

__all__ = ["browser"]
pytestmark = pytest.mark.browser

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
    const text = ["body", "h2", ".doc", "dt", "td", "th button", "nav a"]
        .map((each) => getComputedStyle(document.querySelector(each)).color);
    const drawn = [...document.querySelectorAll("svg text")].map((each) => getComputedStyle(each).fill);
    return {paper, ratios: [...text, ...drawn].map(ratio)};
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The address of a report whose numbers are known."""
    directory = tmp_path_factory.mktemp("reported")
    before, now = write_both(directory)
    done = answer("report", now, "--before", before, "--to", directory / "report.html")
    assert done["snapshot"] == "now"
    return (directory / "report.html").as_uri()


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
    rows = browser.find_elements("css selector", f"#{section} tbody tr")
    return [row.find_elements("tag name", "td")[column].text for row in rows]


def test_the_page_has_every_answer_and_writes_nothing_to_its_console(browser, page):
    browser.get(page)
    assert [heading.text for heading in browser.find_elements("tag name", "h2")] == [
        "Backlog of each subscription",
        "Bytes on disk that only one subscription holds",
        "Orphan ledgers",
        "References to ledgers that do not exist",
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
        for figure in browser.find_elements("tag name", "figure")
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
