"""A process that is not urgent gives way to others, also to those of other sessions."""

import os

import pytest

from mledger.metastore.runtime.processes import priority


@pytest.fixture
def group(tmp_path, monkeypatch):
    """The file of the session's group; this process is nice by 3 already."""
    monkeypatch.setattr(os, "nice", lambda more: 3 + more)
    path = tmp_path / "autogroup"
    monkeypatch.setattr(priority, "AUTOGROUP", path)
    return path


def test_the_session_of_a_process_that_leads_one_gives_way_as_well(group, monkeypatch):
    monkeypatch.setattr(os, "getsid", lambda _: os.getpid())
    priority.stand_back(10)
    assert group.read_text() == "13"


def test_a_session_of_others_stays_as_it_is(group, monkeypatch):
    monkeypatch.setattr(os, "getsid", lambda _: os.getpid() + 1)
    priority.stand_back(10)
    assert not group.exists()


def test_a_system_without_such_groups_is_none_to_fail_on(group, monkeypatch):
    monkeypatch.setattr(os, "getsid", lambda _: os.getpid())
    monkeypatch.setattr(priority, "AUTOGROUP", group / "none")
    priority.stand_back(10)
