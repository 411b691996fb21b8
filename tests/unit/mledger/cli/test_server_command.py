"""Which metadata store a command hands to the server that it becomes."""

import os

import pytest

from mledger.cli.main import command
from mledger.cli.server_command import given_metadata, no_options, server_command
from mledger.cli.shared.context_file import Contexts, write_contexts
from tests.support.cli import mledger

TOLD = ("--metadata", "zk://there:1")


@pytest.fixture
def served(monkeypatch):
    """Runs `mledger ARGUMENTS serve OPTIONS`, and returns the options and the variable that the server gets."""
    told = []

    def main(options, _) -> int:
        told.append((tuple(options), os.environ.get("MLEDGER_METADATA")))
        return 0

    def serve(*arguments: str, given=given_metadata):
        found = server_command("serve", lambda: main, summary="Serve.", epilog="Example: mledger serve", given=given)
        monkeypatch.setattr(type(command), "get_command", lambda *_: found)
        done = mledger(*arguments)
        assert done.code == 0, done
        return told.pop(), done.err

    return serve


@pytest.fixture
def contexts(tmp_path, monkeypatch):
    """The path of a file with the current context `here`."""
    path = tmp_path / "contexts.toml"
    monkeypatch.setenv("MLEDGER_CONTEXTS", str(path))
    write_contexts(path, Contexts().added("here", "zk://here:1"))
    return path


def test_an_option_before_the_command_is_passed_to_the_server(served, contexts) -> None:
    assert served(*TOLD, "serve", "--port", "0") == (((*TOLD, "--port", "0"), None), "")


def test_so_is_the_context_named_by_an_option(served, contexts) -> None:
    assert served("--context", "here", "serve") == ((("--metadata", "zk://here:1"), None), "")


def test_the_current_context_comes_last(served, contexts) -> None:
    assert served("serve", *TOLD) == ((TOLD, "zk://here:1"), "")


def test_a_server_starts_even_if_contexts_cannot_be_read(served, contexts) -> None:
    contexts.write_text("[")
    told, said = served("serve", *TOLD)
    assert told == (TOLD, None)
    assert str(contexts) in said


def test_a_server_that_is_a_metadata_store_needs_no_other(served, contexts) -> None:
    contexts.write_text("[")
    assert served("serve", "--dir", "d", given=no_options) == ((("--dir", "d"), None), "")
