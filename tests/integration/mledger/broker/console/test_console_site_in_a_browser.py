"""The console in a real Chromium: a change through its plan, figures that move, a phone, dark and light, no script."""

import pulsar
import pytest

from tests.support.brokers.broker_process import QUIET, started
from tests.support.browser import as_phone, browser, console, in_scheme, until
from tests.support.metadata.namespaces import create_namespace_at

__all__ = ["browser"]
pytestmark = pytest.mark.browser

HOSTILE = "<script>console.error('run')</script>"
ONE = "/console/topics/persistent/public/shown/orders"
PAGES = (
    "/console",
    "/console/namespaces/public/shown",
    ONE,
    f"{ONE}/subscriptions/billing",
    f"{ONE}/subscriptions/billing/messages",
    f"{ONE}/subscriptions/billing/changes/skip?count=2",
    f"{ONE}/restart",
    "/console/login",
)
COLOURS = """
    const numbers = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
    const light = (text) => numbers(text).map((c) => c / 255)
        .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (each) => {
        const own = getComputedStyle(each).backgroundColor;
        return own === "rgba(0, 0, 0, 0)" && each.parentElement ? behind(each.parentElement) : own;
    };
    const seen = [...document.querySelectorAll("main *, header *")].filter((each) => each.checkVisibility()
        && [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()));
    return seen.map((each) => {
        const [a, b] = [light(getComputedStyle(each).color), light(behind(each))].sort((x, y) => y - x);
        return [(a + 0.05) / (b + 0.05), each.outerHTML.slice(0, 80)];
    }).filter(([ratio]) => ratio < 4.5);
"""


@pytest.fixture(scope="module")
def site(broker_bookie, tmp_path_factory):
    """The address of a broker's HTTP side, and a producer of the topic that is looked at."""
    directory = tmp_path_factory.mktemp("console")
    options = ("--metrics-port", "0")
    create_namespace_at(broker_bookie.metadata_url, "public/shown")
    with started(
        broker_bookie.metadata_url,
        directory / "log",
        "managedLedgerDefaultEnsembleSize=1",
        "managedLedgerDefaultWriteQuorum=1",
        "managedLedgerDefaultAckQuorum=1",
        options=options,
    ) as run:
        client = pulsar.Client(run.service_url, logger=QUIET)
        topic = "persistent://public/shown/orders"
        client.subscribe(topic, "billing", initial_position=pulsar.InitialPosition.Earliest)
        producer = client.create_producer(topic, batching_enabled=False)
        for number in range(5):
            producer.send(HOSTILE.encode(), partition_key=HOSTILE, properties={"number": str(number)})
        yield f"http://127.0.0.1:{run.web_port}", producer
        client.close()


def figure(browser, label):
    """The value of a figure, read at once: the page may replace its figures at any time."""
    script = "return [...document.querySelectorAll('dt')].find((each) => each.textContent === arguments[0])"
    return browser.execute_script(f"{script}?.nextElementSibling.textContent", label)


def press(browser, label):
    browser.find_element("xpath", f"//button[contains(., '{label}')]").click()


def test_the_backlog_moves_while_it_is_looked_at(browser, site):
    address, producer = site
    browser.get(f"{address}{ONE}/subscriptions/billing")
    before = int(figure(browser, "backlog, in entries"))
    producer.send(b"one more")
    until(browser, lambda page: figure(page, "backlog, in entries") == str(before + 1))
    until(browser, lambda page: "follows by itself" in page.find_element("css selector", ".live").text)
    assert console(browser) == []


def test_a_change_goes_through_its_plan(browser, site):
    address, _ = site
    browser.get(f"{address}{ONE}/subscriptions/billing")
    before = int(figure(browser, "backlog, in entries"))
    count = browser.find_element("name", "count")
    count.clear()
    count.send_keys("2")
    press(browser, "Skip")
    until(browser, lambda page: "Skip 2 entries of billing" in page.title)
    cells = [each.text for each in browser.find_elements("css selector", ".plan tbody tr")]
    assert f"backlog, in entries {before} {before - 2}" in cells
    browser.find_element("css selector", ".confirm button").click()
    until(browser, lambda page: page.title.startswith("Done"))
    browser.find_element("link text", "Look at it").click()
    until(browser, lambda page: page.title.startswith("billing of"))
    assert figure(browser, "backlog, in entries") == str(before - 2)
    assert console(browser) == []


def test_hostile_messages_are_text(browser, site):
    address, _ = site
    browser.get(f"{address}{ONE}/messages?from=earliest")
    shown = [each.text for each in browser.find_elements("css selector", "pre")]
    assert shown[0] == HOSTILE
    assert browser.find_element("css selector", ".message code").text == HOSTILE
    assert console(browser) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_a_phone_and_can_be_read(browser, site, scheme):
    address, _ = site
    in_scheme(browser, scheme)
    as_phone(browser)
    for path in PAGES:
        browser.get(address + path)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390, path
        assert browser.execute_script(COLOURS) == [], path
        small = browser.execute_script(
            "return [...document.querySelectorAll('button:not(.plain), input:not([type=hidden], [type=checkbox])')]"
            ".filter((each) => each.checkVisibility() && each.getBoundingClientRect().height < 32).length"
        )
        assert small == 0, path
    assert console(browser) == []
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_keyboard_reaches_the_content_first(browser, site):
    from selenium.webdriver.common.keys import Keys

    address, _ = site
    browser.get(address)
    until(browser, lambda page: page.current_url == f"{address}/console")
    browser.find_element("tag name", "body").send_keys(Keys.TAB)
    focused = browser.switch_to.active_element
    assert focused.text == "Skip to the content"
    assert focused.location["x"] >= 0
    focused.send_keys(Keys.ENTER)
    assert browser.current_url.endswith("#content")


def test_it_prints_without_its_forms_and_works_without_scripts(browser, site):
    address, _ = site
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(f"{address}{ONE}/subscriptions/billing")
    before = int(figure(browser, "backlog, in entries"))
    press(browser, "Clear the backlog")
    until(browser, lambda page: page.title.startswith("Clear the backlog"))
    browser.find_element("css selector", ".confirm button").click()
    until(browser, lambda page: page.title.startswith("Done"))
    browser.find_element("link text", "Look at it").click()
    until(browser, lambda page: page.title.startswith("billing of"))
    assert (before > 0, figure(browser, "backlog, in entries")) == (True, "0")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert not browser.find_element("css selector", ".changes").is_displayed()
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
