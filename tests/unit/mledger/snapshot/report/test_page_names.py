"""File names of namespaces' pages."""

from urllib.parse import unquote

from hypothesis import given
from hypothesis import strategies as st

from mledger.snapshot.report.page_names import page_at


def test_a_name_stays_readable():
    assert page_at("public/default-1") == "namespaces/public+default-1.html"
    assert page_at("Acme/a.b") == "namespaces/=41cme+a=2eb.html"


def test_a_name_cannot_leave_its_directory():
    assert page_at("../../etc") == "namespaces/=2e=2e+=2e=2e+etc.html"


@given(st.text())
def test_a_link_leads_to_the_page(namespace):
    assert unquote(page_at(namespace, for_link=True)) == page_at(namespace)


@given(st.text(max_size=300), st.text(max_size=300))
def test_two_namespaces_have_two_pages_even_if_capital_letters_are_not_told_apart(one, other):
    assert (one == other) == (page_at(one).casefold() == page_at(other).casefold())


@given(st.text())
def test_every_file_system_takes_a_name(namespace):
    name = page_at(namespace).removeprefix("namespaces/")
    assert len(name) <= 150
    assert name.isascii()
    assert not set(name) & set('\\/:*?"<>| ')
