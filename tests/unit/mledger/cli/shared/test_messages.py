"""Errors and warnings on stderr."""

import pytest

from mledger.cli.shared.messages import messages


def test_a_name_in_a_warning_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    messages.use("text")
    messages.warning("cursor a\x1b[2Jb is unknown")
    assert capsys.readouterr().err == "mledger: warning: cursor a\\x1b[2Jb is unknown\n"
