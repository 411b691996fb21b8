"""A login leads to pages of the console only."""

import pytest

from mledger.broker.console.pages.login_pages import plan_next


@pytest.mark.parametrize("wanted", ["/console", "/console/topics/a?b=c"])
def test_a_page_of_the_console_is_shown_next(wanted):
    assert plan_next(wanted) == wanted


@pytest.mark.parametrize(
    "wanted", ["", "//evil", "https://evil", "/consoles", "/console.evil", "/console/login", "/console/x\r\nY: z"]
)
def test_nothing_else_is(wanted):
    assert plan_next(wanted) == "/console"
