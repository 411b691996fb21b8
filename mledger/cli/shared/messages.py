"""What a command says on stderr beside its result: a line for people, or one JSON object a line (--log-format)."""

import os
from collections.abc import Mapping

import click

from mledger.metastore.runtime.logs import FORMATS, JSON, TEXT, discard_logs, format_event, set_up_logging

FORMAT_VARIABLE = "MLEDGER_LOG_FORMAT"
DEBUG_VARIABLE = "MLEDGER_DEBUG"


class Messages:
    """How this process says things; what it is told last holds."""

    def __init__(self) -> None:
        self._format = TEXT
        self._verbosity = 0

    @property
    def log_format(self) -> str:
        """`text` or `json`."""
        return self._format

    def use(self, log_format: str | None) -> None:
        """Say things as `log_format` says; without one as the environment does."""
        found = log_format or os.environ.get(FORMAT_VARIABLE) or TEXT
        self._format = found if found in FORMATS else TEXT
        self._set_up()

    @property
    def traces(self) -> bool:
        """Whether an error is shown with the place in the program that it is from."""
        return self._verbosity > 1 or bool(os.environ.get(DEBUG_VARIABLE))

    def say_more(self, verbosity: int) -> None:
        """Log what the parts of the program do: 1 what is worth knowing, 2 all of it, and errors with their traces."""
        self._verbosity = verbosity
        self._set_up()

    def _set_up(self) -> None:
        if self._verbosity or os.environ.get(DEBUG_VARIABLE):
            set_up_logging(self._format, "debug" if self._verbosity > 1 else "info")
        else:  # the parts' own logs are for who looks into the program; what users need to know, commands say
            discard_logs()

    def error(self, text: str, exit_code: int | None = None) -> None:
        """What went wrong."""
        code = {} if exit_code is None else {"exit_code": exit_code}
        self._say("error", "", "command_failed", {"message": text, **code})

    def warning(self, text: str) -> None:
        """What whoever runs the command should know, though it goes on."""
        self._say("warning", "warning: ", "command_warned", {"message": text})

    def _say(self, level: str, prefix: str, event: str, fields: Mapping[str, object]) -> None:
        if self._format == JSON:
            click.echo(format_event(JSON, level, event, fields), err=True)
        else:
            click.echo(f"mledger: {prefix}{fields['message']}", err=True)


messages = Messages()
