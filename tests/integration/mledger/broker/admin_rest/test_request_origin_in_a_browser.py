"""Pages of other sites in a real Chromium: what they send to a broker changes nothing."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pulsar
import pytest

from tests.support.brokers.broker_process import ONE_BOOKIE, QUIET, started
from tests.support.browser import browser, until
from tests.support.metadata.namespaces import create_namespace_at

__all__ = ["browser"]
pytestmark = pytest.mark.browser

TOPIC = "persistent/public/origins/orders"
PAGE = b"<!doctype html><title>Another site</title><iframe name=hidden></iframe>"
POST_BY_SCRIPT = """
    const [url, done] = arguments;
    fetch(url, {method: "POST", mode: "no-cors", body: "", headers: {"Content-Type": "text/plain"}})
        .then((answer) => done([answer.type, answer.status]), (error) => done([String(error), 0]));
"""
POST_BY_FORM = """
    const form = document.createElement("form");
    [form.method, form.action] = ["post", arguments[0]];
    document.body.append(form);
    form.submit();
"""


class Page(BaseHTTPRequestHandler):
    """A page of another site, the same at every path."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_):
        """Nothing."""


@pytest.fixture(scope="module")
def other_port():
    """The port of another site."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def web_port(broker_bookie, tmp_path_factory):
    """The HTTP port of a broker without authentication, whose topic has a backlog of three."""
    create_namespace_at(broker_bookie.metadata_url, "public/origins")
    log = tmp_path_factory.mktemp("origins") / "log"
    with started(broker_bookie.metadata_url, log, *ONE_BOOKIE, options=("--metrics-port", "0")) as run:
        client = pulsar.Client(run.service_url, logger=QUIET)
        client.subscribe(TOPIC.replace("/", "://", 1), "sub", initial_position=pulsar.InitialPosition.Earliest)
        producer = client.create_producer(TOPIC.replace("/", "://", 1), batching_enabled=False)
        for _ in range(3):
            producer.send(b"one")
        yield run.web_port
        client.close()


def backlog(browser, port):
    """The backlog, as the console shows it."""
    browser.get(f"http://127.0.0.1:{port}/console/topics/{TOPIC}/subscriptions/sub")
    script = "return [...document.querySelectorAll('dt')].find((each) => each.textContent === arguments[0])"
    return int(browser.execute_script(f"{script}.nextElementSibling.textContent", "backlog, in entries"))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "evil.example"])
def test_a_script_of_another_site_clears_no_backlog(browser, web_port, other_port, host):
    browser.get(f"http://{host}:{other_port}/")
    browser.execute_async_script(
        POST_BY_SCRIPT, f"http://127.0.0.1:{web_port}/admin/v2/{TOPIC}/subscription/sub/skip_all"
    )
    assert backlog(browser, web_port) == 3


@pytest.mark.parametrize("host", ["127.0.0.1", "evil.example"])
def test_a_form_of_another_site_clears_no_backlog(browser, web_port, other_port, host):
    browser.get(f"http://{host}:{other_port}/")
    browser.execute_script(POST_BY_FORM, f"http://127.0.0.1:{web_port}/admin/v2/{TOPIC}/subscription/sub/skip_all")
    until(browser, lambda page: "a page of another site" in page.find_element("tag name", "body").text)
    assert backlog(browser, web_port) == 3


def test_a_page_whose_name_leads_to_the_broker_clears_no_backlog(browser, web_port):
    """DNS rebinding: to the browser the page and the broker are one site."""
    browser.get(f"http://evil.example:{web_port}/console/login")
    assert browser.execute_async_script(POST_BY_SCRIPT, f"/admin/v2/{TOPIC}/subscription/sub/skip_all") == [
        "basic",
        403,
    ]
    assert backlog(browser, web_port) == 3
