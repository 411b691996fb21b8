"""Errors and warnings on stderr."""

from contextlib import suppress
from pathlib import Path

import click
import pytest

from mledger.cli.shared.messages import messages


def test_a_name_in_a_warning_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    messages.use("text")
    messages.warning("cursor a\x1b[2Jb is unknown")
    assert capsys.readouterr().err == "mledger: warning: cursor a\\x1b[2Jb is unknown\n"


def test_what_follows_a_change_and_fails_tells_that_the_change_was_made(capsys: pytest.CaptureFixture[str]) -> None:
    messages.use("text")
    with pytest.raises(OSError, match="full"), messages.made("the topic was created"):
        raise OSError("full")
    told = capsys.readouterr().err
    assert told == "mledger: warning: the topic was created, but the command could not finish\n"


def test_a_message_that_cannot_be_written_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stderr", full)
        messages.warning("nobody reads this")
        monkeypatch.undo()
        with suppress(OSError):
            full.close()


def test_a_format_in_the_environment_that_there_is_not_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLEDGER_LOG_FORMAT", "xml")
    with pytest.raises(click.UsageError, match="MLEDGER_LOG_FORMAT is 'xml': set it to text or json, or unset it"):
        messages.check_environment()
    monkeypatch.setenv("MLEDGER_LOG_FORMAT", "")
    messages.check_environment()


@pytest.mark.parametrize(("value", "traces"), [("1", True), ("0", False), ("", False)])
def test_tracebacks_are_shown_if_the_environment_asks_for_them(
    monkeypatch: pytest.MonkeyPatch, value: str, traces: bool
) -> None:
    monkeypatch.setenv("MLEDGER_DEBUG", value)
    assert messages.traces is traces
