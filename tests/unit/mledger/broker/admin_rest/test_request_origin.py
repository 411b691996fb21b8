"""Which requests are taken for those of another site's page."""

import pytest

from mledger.broker.admin_rest.request_origin import plan_origin
from mledger.broker.admin_rest.requests import AdminRequest

OWN = ("broker.company.example", "127.0.0.1")


def asked(method="POST", *, host="broker:8080", encrypted=False, query=None, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return AdminRequest(method, "/x", query or {}, {"host": host, **named}, encrypted=encrypted)


def refused(request, own=OWN):
    return plan_origin(request, own) != ""


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "something new"])
def test_a_change_that_another_sites_page_asks_for_is_refused(method, site):
    assert refused(asked(method, sec_fetch_site=site))
    assert refused(asked(method, sec_fetch_site=site), None)


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_what_the_browser_says_counts_before_the_names(site):
    """A proxy may have another name than the broker behind it, and browsers speak so to names they are sure of only."""
    assert not refused(asked(sec_fetch_site=site, origin="https://console.company.example"))


def test_programs_are_not_asked_where_they_come_from():
    assert not refused(asked())
    assert not refused(asked(host="any.name.example"))
    assert not refused(asked(host=""))


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_a_request_that_changes_nothing_may_come_from_anywhere(method):
    assert not refused(asked(method, sec_fetch_site="cross-site", origin="https://other.example"))


def test_a_request_that_creates_while_it_reads_is_a_change():
    assert refused(asked("GET", query={"checkAllowAutoCreation": "true"}, sec_fetch_site="cross-site"))


@pytest.mark.parametrize(
    "origin", ["http://other:8080", "http://broker:8081", "http://broker", "null", "", "http://[", "broker:8080"]
)
def test_without_that_word_of_the_browser_the_page_has_to_be_of_the_host(origin):
    assert refused(asked(origin=origin))
    assert refused(asked(origin=origin, host=""))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8080",
        "[::1]:8080",
        "192.168.1.7",
        "localhost:8080",
        "broker:8080",
        "Broker:8080",
        "broker.company.example:8080",
        "broker.namespace.svc.cluster.local:8080",
        "host.docker.internal:8080",
        "broker.home.arpa.",
    ],
)
def test_pages_of_addresses_local_names_and_the_brokers_own_name_may_change_things(host):
    assert not refused(asked(host=host, origin=f"http://{host.lower()}"))


@pytest.mark.parametrize("host", ["evil.example:8080", "localhost.evil.example", "broker.company.example.evil.org"])
def test_a_name_that_others_own_may_change_things_only_with_credentials(host):
    """Its owner can have it lead to the broker; the browser keeps no credentials for such a page."""
    assert refused(asked(host=host, origin=f"http://{host}"))
    assert not refused(asked(host=host, origin=f"http://{host}"), None)


def test_an_unencrypted_page_changes_nothing_over_an_encrypted_connection():
    assert refused(asked(encrypted=True, origin="http://broker:8080"))
    assert not refused(asked(encrypted=True, origin="https://broker:8080"))
